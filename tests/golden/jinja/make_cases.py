#!/usr/bin/env python3
"""Writes cases.jsonl beside this file: templates, and what transformers' environment makes of them.

python3 make_cases.py   (needs transformers and jinja2; their versions go to the first line)
A case without "text" is one that the reference refuses; "why" is its message, for people.
"""
import json
import os

import jinja2
import transformers
from transformers.utils.chat_template_utils import _compile_jinja_template

CONTEXT = {
    "messages": [
        {"role": "user", "content": "Hello <b> & 'x' \"y\""},
        {
            "role": "assistant",
            "content": "\u00e9\u65e5\u672c\U0001f642\n",
            "tool_calls": [{"function": {"name": "f", "arguments": {"a": 1, "b": [1.5, None, True]}}}],
        },
        {"role": "tool", "content": "z"},
    ],
    "tools": [
        {
            "type": "function",
            "function": {
                "name": "g",
                "parameters": {"type": "object", "properties": {"z": {"type": "string"}, "a": {"type": "integer"}}},
            },
        }
    ],
    "s": "Hello World, foo-bar  baz",
    "n": 5,
    "f": 2.5,
    "l": [3, 1, 2],
    "words": ["b", "A", "c"],
    "d": {"k": "v", "items": "own", "n": {"m": [1, 2, {"q": "r"}]}},
    "t": True,
    "no": None,
    "big": 123456789012345678901234567890,
    "people": [{"name": "Bob", "age": 30}, {"name": "alice", "age": 25}, {"name": "Carl", "age": 30}],
    "bos_token": "<s>",
    "documents": None,
    "add_generation_prompt": True,
}

# one a line, each inside of {{ }}
EXPRESSIONS = r'''
n + f
n // 2
-7 // 2
-7 % 3
7 % -3
7.5 % 2
-7.5 // 2
2 ** 10
2 ** -1
2 ** 3 ** 2
-2 ** 2
1 / 3
1e100
1e16
1.5e-7
10 / 2
0.1 + 0.2
100000000000000000000
1_000
0x1F + 0b11 + 0o17
"a" "b" 'c'
"tab\tnl\nq\"\'\\ \d \x41 \u00e9 \U0001F600 \101"
'a' * 3
[1,2] * 2
[1] + [2]
(1,) + (2,)
(1,)
()
1, 2
[1, 2, ]
{'a': 1, 'b': [1, {'c': None}]}
{1: 'x', True: 'y', 1.0: 'z', none: 3}
'x' ~ 1 ~ none ~ true ~ 1.5 ~ [1]
not true
not not 1
1 < 2 < 3
1 < 3 < 2
1 == 1.0
true == 1
'a' < 'b'
[1,2] < [1,3]
none == none
'a' in 'abc'
1 in [1,2]
'k' in d
3 not in l
x is defined
x is undefined
x.y is defined
x.y
x['y']
x
x|length
x|list
x ~ 'a'
x + 1
x == y
x == ''
d.k
d['items']
d.items()
d.keys()
d.values()
d|items|list
d.n.m[2].q
d.n.m.2.q
d['n']['m'][0]
d.missing
d.missing.more
d.get('k')
d.get('zz')
d.get('zz', 5)
d['zz']
l[0]
l[-1]
l[10]
l[1:]
l[::-1]
l[-2:]
l[5:2]
l[::2]
s[::-1]
s[2:8:3]
s[-3:]
s[0]
s[100]
(1,2,3)[1:]
range(10)[2:5]
range(5)
range(1, 10, 3)|list
range(3)
range(10, 0, -3)|list
s.upper()
s.lower()
s.title()
s|title
s|capitalize
s.capitalize()
s.swapcase()
s.split()
s.split(',')
s.split('o', 1)
s.rsplit('o', 1)
s.rsplit(none, 1)
'  a b  c '.split(none, 1)
'  a b  c '.rsplit(none, 1)
'  a b  c '.split()
s.strip('Hz')
'xxaxx'.strip('x')
'  a '.lstrip() ~ '|'
s.startswith('Hello')
s.startswith(('a','H'))
s.endswith('baz')
s.find('o')
s.rfind('o')
s.find('zz')
s.index('zz')
s.count('o')
s.count('')
s.replace('o','0')
s.replace('o','0',1)
'abc'.replace('','-')
'abc'.replace('','-',2)
'-'.join(['a','b'])
'-'.join([1])
'a,b;c'.partition(',')
'a,b,c'.rpartition(',')
'abc'.partition('x')
'abc'.rpartition('x')
'a\nb\r\nc\n'.splitlines()
'a\nb'.splitlines(true)
'x'.center(6) ~ '|'
'x'.center(5, '*')
'xy'.center(5, '*')
'xy'.center(4, '*')
'xyz'.center(8,'*')
'x'.ljust(4,'.') ~ 'x'.rjust(4,'.')
'-5'.zfill(4)
'5'.zfill(4)
'+a'.zfill(5)
'12'.isdigit() ~ 'a'.isalpha() ~ 'A1'.isalnum() ~ ' '.isspace()
'Ab'.isupper() ~ 'AB'.isupper() ~ 'ab1'.islower()
'Hello World'.istitle()
'prefix_x'.removeprefix('prefix_')
'x.txt'.removesuffix('.txt')
'{} {}'.format(1, 'a')
'{0} {1} {0}'.format(1, 'a')
'{a}-{b}'.format(a=1, b=none)
'{:>5}|{:<5}|{:^5}'.format('a','b','c')
'{:05d} {:+d} {:x} {:,}'.format(42, 42, 255, 1234567)
'{:.2f}'.format(3.14159)
'{{}}'.format(1)
'%s %d %5.2f %%' % ('a', 5, 3.14159)
'%s' % 'x'
'%s' % [1]
'%r' % 'x'
'%05d|%-5d|%+d' % (42, 42, 42)
'%x %X %o %e %g' % (255,255,8,12345.678,0.0001)
'%(a)s' % {'a': 1}
'%d' % 3.9
'%s %s' % ('a',)
'%s' % ('a','b')
"%s - %s"|format("a", 1)
"%(x)s"|format(x=3)
l|sort
l|sort(reverse=true)
words|sort
words|sort(case_sensitive=true)
people|sort(attribute='age')|map(attribute='name')|list
people|sort(attribute='age,name')|map(attribute='name')|list
people|map(attribute='name')|join(', ')
people|map(attribute='zz', default='q')|list
people|map(attribute='zz')|list
words|map('upper')|list
words|map('replace','b','X')|list
l|map('string')|join
people|selectattr('age','eq',30)|map(attribute='name')|list
people|rejectattr('age','equalto',30)|list|length
people|selectattr('age')|list|length
[0,1,2,none,'']|select|list
[0,1,2,none,'']|reject|list
l|select('gt',1)|list
l|select('odd')|list
l|reject('odd')|list
messages|selectattr('role','equalto','user')|list|length
messages|selectattr('tool_calls','defined')|list|length
l|first
l|last
[]|first
[]|last
[]|first is defined
s|first
s|last
l|min
l|max
people|max(attribute='age')
[]|min
l|sum
people|sum(attribute='age')
l|sum(start=10)
[1,1,2,'a','A']|unique|list
l|reverse|list
s|reverse
l|batch(2)|list
l|batch(2,'x')|list
l|slice(2)|list
l|slice(2,'x')|list
d|dictsort
{'b':1,'A':2}|dictsort
{'b':1,'A':2}|dictsort(true)
{'b':1,'A':2}|dictsort(by='value')
{'b':1,'A':2}|dictsort(reverse=true)
l|join('-')
l|join
people|join('/', attribute='name')
s|join(',')
l|length
s|length
d|length
5|length
l|count
l|string
d|string
f|string
messages|tojson
messages|tojson(indent=2)
tools|tojson
tools|tojson(indent=4)
{'b':1,'a':2}|tojson(sort_keys=true)
{'b':1,'a':[1,2]}|tojson(separators=(',',':'))
'é<>&\u2028'|tojson
'é'|tojson(ensure_ascii=true)
'🙂'|tojson(true)
[1.0,1e30,-0.0,1e-7,123456789.123]|tojson
{1:2, none:3, true:4, 1.5:6}|tojson
x|tojson
range(3)|tojson
(1,2)|tojson
[]|tojson(indent=2)
{}|tojson(indent=2)
[[],{}]|tojson(indent=1)
big|tojson
big
no|tojson
s|trim
'  x '|trim ~ '|'
'xxaxx'|trim('x')
'a'|default('b')
x|default('b')
x|d('b')
x|default
''|default('b')
''|default('b', true)
no|default('q')
no|default('q', true)
'42'|int
'4.7'|int
'abc'|int
'abc'|int(7)
'ff'|int(0,16)
'0x1f'|int(0,16)
' 12 '|int
'1_000'|int
4.9|int
-4.9|int
true|int
no|int
'1e3'|int
'3.14'|float
'abc'|float
'abc'|float(1.5)
'inf'|float
'nan'|float
'1e5'|float
5|float
-5|abs
-5.5|abs
2.5|round
3.5|round
2.675|round(2)
2.567|round(1,'floor')
2.51|round(1,'ceil')
5|round
1234|round(-2)
1250.0|round(-2)
'a\nb\n\nc'|indent
'a\nb\n\nc'|indent(2, true)
'a\nb\n\nc'|indent(2, true, true)
'a\nb'|indent('> ')
'a\n'|indent ~ '|'
''|indent ~ '|'
s|truncate(10)
s|truncate(10, true)
s|truncate(10, true, '!')
s|truncate(25)
s|truncate(10, leeway=0)
'<a> & "b"'|e
'<a>'|e ~ '<b>'
('<a>'|e) + '<b>'
('<a>'|safe) + '<b>'
'<a>'|safe
'<a>'|escape|e
['<'|safe]
s|replace('o','0')
s|replace('o','0',1)
5|replace(5,6)
s|center(40)
s|upper ~ s|lower
'ß'|upper
'ŉ ǰ ﬁ'|upper
'ΑΣ'|lower
'ßa ßb'|title
'ǆ'.title()
'İ'.lower()
'éa'|capitalize
"they're bill's"|title
"they're bill's".title()
'a-b (c d)'|title
d|attr('k')
n|attr('zz')
n is number
f is float
n is integer
t is boolean
t is integer
t is number
s is string
l is sequence
d is mapping
d is sequence
l is iterable
s is iterable
n is iterable
no is none
n is odd
4 is even
6 is divisibleby 3
6 is divisibleby(4)
n is eq 5
n is sameas 5
n is in [5,6]
n is not in [5,6]
n is gt 3
s is lower
'abc' is lower
'ABC' is upper
'upper' is filter
'odd' is test
'zz' is filter
raise_exception is callable
n is callable
x is none
x is string
x is iterable
x is sequence
x is mapping
messages|map(attribute='role')|list
(messages|selectattr('role','eq','zz')) is iterable
messages[-1]['role']
messages[1].tool_calls[0].function.arguments.b[2]
messages[1].content|length
messages[1].content[1]
messages[1].content[::-1]
'a' if t else 'b'
'a' if no else 'b'
'a' if no
('a' if no) is undefined
(n > 3 and 'big') or 'small'
no or 'x'
0 or ''
'' and 'x'
1 if 2 if 0 else 3 else 4
n|string|length + 1
-n|abs
+n
-t
not n == 5
n == 5 and not x
(n, f)|list
dict(a=1, b=2)
dict([('a',1)])
dict({'a':1}, b=2)
namespace(a=1)
namespace(a=1).a
namespace({'a':1}, b=2).b
namespace(a=1).zz
{'a':1}.a
{'a':1}['a']
'abc'.zz
'abc'['upper']()
none.x
n.x
true.x
[1,2,3].index(2)
[1,2,1].count(1)
(1,2).index(2)
d.copy().k
'%s' % x
'a' 'b' ~ 'c'
1 ~ 2
1 if x is defined else 2
x is defined and x.y
x.y.z if x is defined else 'no'
[1,2,3][1]
'a\\nb'
'a/b'
l.0
l.0 + 1
'a'.b.c
s[n]
s['n']
s.0
d[n]
d[[1]]
l['a']
l[1.0]
l[true]
1 == '1'
[1] == (1,)
{'a':1} == {'a':1.0}
'a' == 'a'|safe
1 < 'a'
none < 1
[] < {}
'a' + 1
1 + 'a'
[] + 1
none + 1
{} + {}
1 / 0
1 % 0
1 // 0
1.0 / 0
5 in 5
1 in 'abc'
none|length
none|list
5|list
'abc'|list
d|list
d.items()|list
d.values()|list|length
loop
true and false or true
True and not False
None
1 is 1
n is zz
n|zz
n if n|zz else 2
(n|zz) if false else 2
s.__class__
d.__class__.__name__
cycler('a','b').next()
cycler('a','b').current
'a' in ['a','b'] and 'x' in 'xyz'
'a' is in 'abc'
[1,2,3]|length == 3
[[1,2],[3]]|map('length')|list
[[1,2],[3]]|map('first')|list
[[1,2],[3]]|map(attribute=0)|list
[[1,2],[3]]|sum(start=[])
['a','b']|map('upper')|join('+')|lower
{'a':{'b':5}}|items|list
1.0
1.10
1e5
1e22
123456789012345.6
-0.0
3.0e-5
0.00001
(1/3)|round(3)
7|round(2)
1|tojson
'a'|tojson|safe
"%.3f"|format(2)
"{:d}".format(3)
"{!r}".format('a')
"{0!s:>4}".format(1)
[x]
[x]|length
{'a': x}
[none, true, 1.5, 'a\'b', "a\"b", 'a\n', 'é', '\u200b', '\x7f', '🙂']
{'a b': 'c'}|string
s|list|length
s|unique|join
s|batch(5)|map('join')|list
'a.b.c'.split('.')[-1]
'x=1'.split('=')|last
('a','b')|join
"a"|upper|lower|title
s.format()
s|format
'{'.format()
'}'.format()
'{}'.format()
'{x}'.format()
1 in range(3)
5 in range(3)
range(3) == range(3)
range(200000)
range(0)
range(5)|last
range(5)|length
range(2)|string
not x
x and 1
x or 'u'
x|upper
x|trim
x|int
x|float
x|abs
x|join
x|first
x|sort
x|string
x|replace('a','b')
x|indent
x|map('upper')|list
x|selectattr('a')|list
x|items|list
x|dictsort
x|reverse|list
x|sum
x|unique|list
x|batch(2)|list
x()
x.y()
s()
1()
'a'|default(x)
range(x)
l[x]
d[x]
s.split(x)
s.replace(x, 'a')
'a' in x
x in 'abc'
x in [1]
x in d
1 < x
x < 1
x % 2
-x
x ~ x
"abc"[1:2]
"abc"[-100:100]
"abc"[::-2]
"abc"[2:0:-1]
l[none:none]
l[:'a']
l[::0]
d[1:2]
n[1:2]
x[1:2]
'é日本'[1]
'é日本'|length
'é日本'.find('本')
'é日本'.center(7,'·')
'é日本'|truncate(3,true,'')
'日本語テキスト'|list
'a\u0301'|length
'\ud83d'|length
messages|length > 2 and messages[0].role == 'user'
'test' is string and 'test'|length == 4
('a' ~ 'b')|upper
(l|length) * 2
l|length * 2
s|length - 1
n|string ~ 'x'
-1|abs
(-1)|abs
2 + 3|string|length
'a' if true else 'b' ~ 'c'
[1, 2] == [1, 2]
[1, [2, 3]] in [[1, [2, 3]]]
{'a': 1, 'a': 2}
{'a': 1}|length
"a" ~ "b"|upper
'abc'|batch(2)|list
1|string|int + 1
'b' > 'a' > 'A'
none is defined
none|d(1)
false|d(1)
false|d(1, true)
'a,b'.split(',')|map('upper')|list|tojson
messages[0].content.split('<')[0]|trim
messages[0]['content']|e
messages[0].get('tool_calls')
messages[0].tool_calls
messages[0].tool_calls|length
messages[0].tool_calls is not defined
messages[1].tool_calls is defined and messages[1].tool_calls is not none
messages[1].tool_calls[0].function.arguments|tojson
messages[1].tool_calls[0].function.arguments|items|list
messages[1].tool_calls[0]['function']['arguments'].items()|list
messages[1:]|map(attribute='role')|list
messages[::-1]|map(attribute='role')|list
tools|map(attribute='function')|map(attribute='name')|list
tools[0].function.parameters.properties|dictsort
tools[0].function.parameters.properties|length
tools[0]|tojson(indent=4)|indent(2)
tools[0].function.parameters.properties.keys()|list|sort
'x'|upper|default('y')
[]|default('y', true)
'a'.startswith('')
''.startswith('a')
'a'.endswith(('b','a'))
'abcabc'.find('c', 3)
'abcabc'.find('c', -2)
'abcabc'.rfind('a', 0, 3)
'abcabc'.count('a', 1)
'abcabc'.startswith('b', 1)
'abc'.index('c')
'a b'.isalpha()
'²'.isdigit() ~ '²'.isdecimal() ~ '½'.isnumeric()
{'a':1}.items()|list
[3,1].sort()
'a' ~ none
'None' == none|string
1 and 2
1 or 2
(1 and 0) or 3
f is integer
2.0 is integer
5 is divisibleby 0
'5' is odd
'a' is odd
1 is odd and 2 is even
n is defined and n is number and n > 4
'é' < 'f'
'Z' < 'a'
[3,1,'a']|sort
[none, 1]|sort
[true, 0, 2]|sort
[1.5, 1]|sort
{'a':[3,1]}.a|sort|first
'a'.join('bc')
','.join(d)
','.join(d.keys())
'abc' * 0
'abc' * -1
2 * 'ab'
[0] * 3
true + true
true * 3
3 - true
2 ** 0.5
4 ** 0.5
10 // 3.0
10 % 3.5
-10 % 3.5
7 // -2
1e308 * 10
-1e308 * 10
9223372036854775807
-9223372036854775808
9223372036854775807 - 1
'1' ~ 1 + 1
1 + 1 ~ '1'
2 * 3 ~ 4
[1,2,3]|map('string')|join(',')|length
1 != 2
1 <> 2
'a' not in 'abc'
not 'a' in 'abc'
not ('a' in 'abc')
d is mapping and 'k' in d
(d)
((1))
((1),)
[[]]
[()]
[(1,2),(3,)]
{}
{'a':{}}
{(1,2):3}
{[1]:2}
1,
,1
1 2
(1
1)
[1
{1
'abc
"abc
1 +
+ 1
* 1
n.
n..x
n|
|n
n is
n is not
if
for
in
not
n not
n[
n(
n(a b)
n(a=1,2)
@
$x
a?b
a!b
a&b
a:b
a;b
%
a b
1a
0x
00
007
1__0
1_
.5
5.
1.e5
1e
true()
none.a.b
"a".b()
'''

TEMPLATES = [
"{% for x in l %}{{ x }},{% endfor %}",
"a\n{% if true %}\nb\n{% endif %}\nc\n",
"a\n  {% if true %}\n  b\n  {% endif %}\nc\n\n",
"a {%- if true -%} b {%- endif -%} c",
"a {%+ if true +%} \nb\n {%+ endif %}\nc",
"  {{ n }}  \n  {{- n -}}  \n x",
"{# c #}\nx{#- c -#}  y  {# multi\nline #}\nz",
"  {# c #}\n  y",
"{% raw %}{{ x }}{% if %}{% endraw %}",
"{% raw -%}\n  {{ x }}\n  {%- endraw %}\n z",
"a\n  {% raw %}  x {% endraw %}  \nb",
"{{ '{{' }} {{ '}}' }} {{ {'a':{'b':1}} }}",
"{{ {'a':1}}}",
"{% set x = 5 %}{{ x }}{% for i in l %}{% set x = i %}{{ x }}{% endfor %}{{ x }}",
"{% set ns = namespace(x=0) %}{% for i in l %}{% set ns.x = ns.x + i %}{% endfor %}{{ ns.x }}",
"{% set a, b = 1, 2 %}{{ a }}{{ b }}",
"{% set a, (b, c) = 1, (2, 3) %}{{ a }}{{ b }}{{ c }}",
"{% set a, b = 1 %}",
"{% set a, b = [1,2,3] %}",
"{% set x %}hello {{ n }}{% endset %}[{{ x }}]",
"{% set x | upper %}hello {{ n }}{% endset %}[{{ x }}]",
"{% set x | upper | replace('L','1') %}hello{% endset %}[{{ x }}]",
"{% if n > 10 %}a{% elif n > 4 %}b{% else %}c{% endif %}",
"{% if no %}a{% elif no %}b{% elif t %}c{% else %}d{% endif %}",
"{% if no %}a{% else %}{% if t %}q{% endif %}{% endif %}",
"{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}",
"{% for k, v in d|items %}{{ k }};{% endfor %}",
"{% for k in d %}{{ k }};{% endfor %}",
"{% for x in l if x > 1 %}{{ loop.index }}:{{ x }} {% else %}none{% endfor %}",
"{% for x in l if x > 10 %}{{ x }}{% else %}none{% endfor %}",
"{% for x in [] %}{{ x }}{% else %}empty{% endfor %}",
"{% for x in l %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }}{{ loop.depth }}{{ loop.depth0 }} {% endfor %}",
"{% for x in l %}{{ loop.previtem }}<{{ x }}>{{ loop.nextitem }} {% endfor %}",
"{% for x in l %}{{ loop.previtem is defined }}{{ loop.nextitem is defined }} {% endfor %}",
"{% for x in l %}{{ loop.cycle('a','b') }}{{ loop.changed(x > 1) }} {% endfor %}",
"{% for x in l %}{% for y in l %}{{ loop.index }}{% endfor %}{{ loop.index }};{% endfor %}",
"{% for x in l %}{% if loop.first %}{% continue %}{% endif %}{{ x }}{% endfor %}",
"{% for x in range(10) %}{% if x == 3 %}{% break %}{% endif %}{{ x }}{% endfor %}",
"{% for x in range(3) %}{% for y in range(3) %}{% if y == 1 %}{% break %}{% endif %}{{ x }}{{ y }} {% endfor %}{% endfor %}",
"{% break %}",
"{% macro f(a, b=2, c='x') %}{{ a }}-{{ b }}-{{ c }}{% endmacro %}{{ f(1) }} {{ f(1, c=3) }} {{ f(1, 5, 6) }} {{ f() }}",
"{% macro f(a) %}{{ a }}{% endmacro %}{{ f(1, 2) }}",
"{% macro f(a) %}{{ a }}{% endmacro %}{{ f(b=2) }}",
"{% macro f(a) %}{{ a }}{{ varargs }}{{ kwargs }}{% endmacro %}{{ f(1, 2, 3, z=4) }}",
"{% macro f(a, b=a) %}{{ a }}{{ b }}{% endmacro %}{{ f(1) }}",
"{% macro f(a=1, b) %}{% endmacro %}",
"{% macro f() %}[{{ caller() }}]{% endmacro %}{% call f() %}body {{ n }}{% endcall %}",
"{% macro f() %}[{{ caller(1, 2) }}]{% endmacro %}{% call(a, b) f() %}{{ a }}{{ b }}{% endcall %}",
"{% macro f() %}x{% endmacro %}{% call f() %}y{% endcall %}",
"{% macro f() %}{{ y }}{% endmacro %}{% set y = 3 %}{{ f() }}",
"{% set y = 1 %}{% macro f() %}{{ y }}{% endmacro %}{% set y = 3 %}{{ f() }}",
"{% macro f(n) %}{{ n }}{% if n > 0 %}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(5) }}",
"{% macro f() %}  x  {% endmacro %}{{ f()|trim }}{{ f().strip() }}{{ f()|length }}",
"{% macro f() %}<b>{% endmacro %}{{ f() + '<c>' }}",
"{% macro f(x) %}{% set z = 5 %}{{ z }}{% endmacro %}{{ f(1) }}{{ z }}",
"{{ f.name }}{% macro f() %}{% endmacro %}{{ f.name }}",
"{% filter upper %}abc {{ s }}{% endfilter %}",
"{% filter replace('a','b')|upper %}abc{% endfilter %}",
"{% with a = 1, b = 2 %}{{ a }}{{ b }}{% endwith %}{{ a }}",
"{% with %}{% set q = 1 %}{{ q }}{% endwith %}{{ q }}",
"{% set a = 1 %}{% with a = 2, b = a %}{{ a }}{{ b }}{% endwith %}",
"{% generation %}x{% set g = 1 %}{% endgeneration %}{{ g }}",
"{% if true %}{% set q = 1 %}{% endif %}{{ q }}",
"{% for i in [1] %}{% set q = 1 %}{% endfor %}{{ q }}",
"{% print n, s %}",
"{% do 1 %}",
"{% include 'x' %}",
"{% foo %}",
"{% if %}{% endif %}",
"{% if true %}",
"{% endif %}",
"{% for %}{% endfor %}",
"{% for x in l %}",
"{% for x l %}{% endfor %}",
"{% for 1 in l %}{% endfor %}",
"{% set 1 = 2 %}",
"{% set true = 2 %}",
"{% set x.y = 2 %}",
"{% set d.y = 2 %}",
"{% set s = namespace() %}{% set s.y = 2 %}{{ s.y }}",
"{% set s = namespace() %}{% set s._y = 2 %}",
"{% set s = namespace() %}{% set s.a, b = 2, 3 %}{{ s.a }}{{ b }}",
"{% set x = %}",
"{% set %}",
"{{ n",
"{% if n",
"{# n",
"{{ }}",
"{{",
"{%",
"}}",
"%}",
"{ { n } }",
"{{ raise_exception('boom') }}",
"{{ raise_exception() }}",
"{% if messages[0].role != 'system' %}{{ raise_exception('no ' ~ n) }}{% endif %}",
"{% set j = joiner('; ') %}{% for x in l %}{{ j() }}{{ x }}{% endfor %}",
"{% set c = cycler('a','b','c') %}{% for x in range(5) %}{{ c.next() }}{% endfor %}{{ c.current }}{{ c.reset() }}{{ c.current }}",
"{% set g = l|map('string') %}{{ g|list }}{{ g|list }}",
"{% set g = l|map('string') %}{{ g|first }}{{ g|list }}",
"{% if l|select('gt', 100) %}y{% else %}n{% endif %}",
"{% if d.items() %}y{% endif %}{% if {}.items() %}y{% else %}n{% endif %}",
"{% for x in l|reverse %}{{ x }}{% endfor %}",
"{% for a, b in [[1,2],[3,4]] %}{{ a }}{{ b }}{% endfor %}",
"{% for a in [[1,2],[3,4]] %}{{ a[0] }}{% endfor %}",
"{% for a, b in [[1,2,3]] %}{{ a }}{% endfor %}",
"{% for a in 5 %}{% endfor %}",
"{% for a in none %}{% endfor %}",
"{% for a in x %}q{% else %}e{% endfor %}",
"{% for c in 'héllo' %}{{ c }}.{% endfor %}",
"{% for item in people recursive %}{{ item.name }}{% endfor %}",
"{% for item in [{'n':1,'c':[{'n':2,'c':[]},{'n':3,'c':[{'n':4,'c':[]}]}]}] recursive %}{{ item.n }}@{{ loop.depth }}({{ loop(item.c) }}){% endfor %}",
"{% for x in l %}{{ loop(l) }}{% endfor %}",
"{% for x in l %}{{ x }}{% set l = [] %}{% endfor %}{{ l }}",
"{% set l2 = l + [4] %}{{ l2 }}{{ l }}",
"{% for m in messages %}{{ m.role }}{% if not loop.last %}|{% endif %}{% endfor %}",
"{%- for m in messages %}\n  {%- if m.role == 'user' %}\n    {{- m.content }}\n  {%- else %}\n    {{- '<' + m.role + '>' }}\n  {%- endif %}\n{%- endfor %}\n",
"line1\r\nline2\r{% if true %}\r\nx{% endif %}\r\n",
"x\n",
"x\n\n",
"\n",
"",
"   {% set x = 1 %}   \n   y",
"{% if true %}  \n x{% endif %}",
"a{% if true %}\n\nx{% endif %}\n\n",
"\t{% if true %}\tx\n\t{% endif %}\n",
"{{ n }}\n{{ n }}\n",
"{{- n }}\n\n{{- n }}",
"a  {{- '' -}}  b",
"a\n\n  {%- set x = 1 -%}  \n\n b",
"{% for x in l -%}\n  {{ x }}\n{%- endfor %}",
"{% for x in l %}\n  {{ x }}\n{% endfor %}",
"{%for x in l%}{{x}}{%endfor%}",
"{%-for x in l-%} {{-x-}} {%-endfor-%}",
"{% if n == 5 %}{% set r = 'yes' %}{% else %}{% set r = 'no' %}{% endif %}{{ r }}",
"{{ n|zz if false else 1 }}",
"{% if false %}{{ n|zz }}{% endif %}ok",
"{% if false %}{{ n is zz }}{% endif %}ok",
"{% if true %}{{ n|zz }}{% endif %}ok",
"{% if false %}{% for x in l %}{{ n|zz }}{% endfor %}{% endif %}ok",
"{% for x in l: %}{{ x }}{% endfor %}",
"{% if true: %}x{% endif %}",
"{% set x = [] %}{% for i in l %}{% set x = x + [i] %}{% endfor %}{{ x }}",
"{% set x = {'a': 1} %}{{ x.a }}{{ x['a'] }}",
"{% set a = b = 1 %}",
"{{ a = 1 }}",
"{% set loop = 5 %}{{ loop }}",
"{% macro m(x, y) %}{{ x }},{{ y }}{% endmacro %}{{ m(*[1,2]) }}{{ m(**{'x':1,'y':2}) }}{{ m(1, *[2]) }}",
"{% macro m() %}{{ kwargs.a }}{% endmacro %}{{ m(a=3) }}",
"{% macro m(msg) -%}\n  {{ msg }}\n{%- endmacro %}[{{ m('x') }}]",
"{% set f = 'upper' %}{{ ['a']|map(f)|list }}",
"{{ messages | map(attribute='content') | select('string') | list | length }}",
"{{ ([1,2,3] | select('in', [1,3])) | list }}",
"{% set x = namespace(a=[]) %}{% for i in l %}{% set x.a = x.a + [i] %}{% endfor %}{{ x.a }}{{ x }}",
"{{ 'a' }}{{ \"b\" }}{{ 'it''s' }}",
"{{ \"\\\"\" }}{{ '\\'' }}{{ '\\\\' }}",
"{{ '\\u00e9\\x41\\n' }}|",
"{% set content %}\n  x\n{% endset %}[{{ content }}]",
"{% set a %}{% set b = 1 %}{{ b }}{% endset %}{{ a }}{{ b }}",
"{% if messages is string %}s{% elif messages is iterable %}i{% endif %}",
"{% for m in messages %}{% if loop.index0 == 1 %}{% set found = true %}{% endif %}{% endfor %}{{ found is defined }}",
"{{ [1,2,3] | join(', ') }} {{ ['a'] | first | upper }}",
"{% set m = messages[0] %}{% set c = m['content'] if m['content'] is string else m['content'][0]['text'] %}{{ c }}",
"{{ bos_token }}{{ eos_token }}{{ eos_token is defined }}",
"{{ documents is none }}{{ tools is not none }}{{ add_generation_prompt }}",
"{{ true }}{{ none }}{{ 1.0 }}{{ [true, none] }}",
"{{ not_a_func('x') }}",
"{% call n() %}{% endcall %}",
"{% call n %}{% endcall %}",
"{% trans %}x{% endtrans %}",
"{{ loop.index }}",
"{{ caller() }}",
"{{ super() }}",
"{% macro a() %}{{ b() }}{% endmacro %}{% macro b() %}B{% endmacro %}{{ a() }}",
"{% for i in range(2) %}{% macro q() %}{{ i }}{% endmacro %}{{ q() }}{% endfor %}",
"{{ {'a': 1, **{'b': 2}} }}",
"{{ [*l] }}",
"{{ l if l else 'x' }}",
"{{ (l|length > 2) ~ (l|length < 2) }}",
"{{ 1 if n else 2 if f else 3 }}",
"{{ x if x is defined and x else 'd' }}",
"{{ lambda }}",
"{{ l | length > 2 }}",
"{{ l | sum / 2 }}",
"{{ 10 | string + '5' }}",
"{{ 'x' in s and s or 'n' }}",
"{{ '%s=%s' | format('a', 'b') }}",
"{{ {'a':'b'}['a'] | upper }}",
"{{ [] is defined }}{{ [] is sequence }}",
"{{ messages[0].role ~ ': ' ~ messages[0].content | trim }}",
"{% if 'a' in messages[0].content|lower and not messages[0].content.startswith('z') %}y{% endif %}",
"{{ (messages|length) - 1 }}{{ messages|length-1 }}",
"{{ l|length -1 }}{{ -1 }}{{- 1 }}",
"{{ 5-3 }}{{ 5 -3 }}{{5 - -3}}",
"{% set x=1 %}{% if x==1 %}{{x}}{% endif %}",
"{{ '' if not x else x }}",
"{{ 'a'if true else'b' }}",
"{{ n if n>3 else-1 }}",
"{{1if true else 2}}",
]


def render(template):
    case = {"template": template}
    try:
        case["text"] = _compile_jinja_template(template).render(**CONTEXT)
    except Exception as e:
        case["why"] = type(e).__name__ + ": " + str(e)
    return case


def main():
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "cases.jsonl")
    templates = ["{{ " + line + " }}" for line in EXPRESSIONS.strip("\n").split("\n")] + TEMPLATES
    with open(path, "w", encoding="utf-8") as out:
        made_by = "transformers %s, jinja2 %s" % (transformers.__version__, jinja2.__version__)
        out.write(json.dumps({"made_by": made_by, "context": CONTEXT}) + "\n")
        for template in templates:
            out.write(json.dumps(render(template)) + "\n")


main()
