# Reads meson's testlog.txt. part=names: a line for each program that failed and for each failed test of Check in it;
# part=logs: the last 100 lines of what each of them printed. folder: where it was built, for the names.
function finish(  i, first)
{
	if (name == "" || result ~ /^exit status (0|77)$/) {
		name = ""
		return
	}
	if (part == "logs") {
		print "---- " folder "/" name ": the end of its output"
		first = n > 100 ? n - 100 : 0
		for (i = first; i < n; i++)
			print lines[i]
	} else {
		print "FAILED " folder "/" name ": " (result == "" ? "no result" : result)
		for (i = 0; i < n; i++)
			if (lines[i] ~ /^[^ :]+:[0-9]+:[FE]:/)
				print "FAILED " folder "/" name ": " substr(lines[i], 1, 300)
	}
	name = ""
}
/^=+ [0-9]+\/[0-9]+ =+$/ { finish(); result = ""; n = 0; in_output = 0; next }
!in_output && /^test: / { sub(/^test: */, ""); name = $0; next }
!in_output && /^result: / { sub(/^result: */, ""); result = $0; next }
!in_output && /^command: / { in_output = 1; next }
in_output == 1 && /^=+$/ && length($0) > 70 { in_output = 2 }
in_output == 1 { lines[n++] = $0 }
END { finish() }
