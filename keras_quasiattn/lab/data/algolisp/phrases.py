"""What generated problems may ask for: programs with slots, and the wordings of each.

The rules of a category follow its name. A rule is a program, " : " and the wordings, separated by
" | "; an indented line continues it. A slot such as `{ints}` is filled with a phrase of that
category in the text, and with the program of that phrase in the program. A digit distinguishes two
slots of one category. The categories `int`, `ints`, `bool`, `string` and `strings` are values,
`condition` and `change` are functions of a number, `string_condition` and `string_change` of a
string. A `test` is an expression about the number `arg1`.
"""

from collections.abc import Mapping, Sequence
from typing import Final

# Values that a problem may declare as arguments: their type, and the words for one and several.
ARGUMENTS: Final[Mapping[str, tuple[str, Sequence[tuple[str, str]]]]] = {
    "int": ("int", [("a number", "numbers"), ("an integer", "integers")]),
    "ints": (
        "int[]",
        [(f"an array of {words}", f"arrays of {words}") for words in ("numbers", "integers")],
    ),
    "string": ("string", [("a string", "strings")]),
    "strings": ("string[]", [("an array of strings", "arrays of strings")]),
}
CONSTANTS: Final = {"int": ("1", "2", "10")}

OPENINGS: Final = ["given", "consider", "you are given", "you have", "suppose you have"]
DEFINITIONS: Final = ["let {name} be {phrase}", "define {name} as {phrase}", "call {phrase} {name}"]
_TASK = "your task is to"
REQUESTS: Final = [
    *(f"{words} {{phrase}}" for words in ("compute", "find", "what is", "return")),
    *(f"{_TASK} {word} {{phrase}}" for word in ("find", "compute")),
]
_CHECKS = (
    "check if",
    "find whether",
    "is it true that",
    f"{_TASK} check whether",
    "return true if",
)
QUESTIONS: Final = [f"{words} {{phrase}}" for words in _CHECKS]

_ABBREVIATIONS = {
    "<PAIRED>": "[ range 0 [ min [ len {ints} ] [ len {ints2} ] ] ]",
    "<DISTINCT>": (
        "[ dict-keys [ reduce {ints} [ dict-new int int ] [ partial2 1 dict-insert ] ] ]"
    ),
    "<REVERSED>": '[ reduce [ reverse <CHARACTERS> ] "" str_concat ]',
    "<CHARACTERS>": "[ map [ range 0 [ strlen {string} ] ] [ partial1 {string} str_index ] ]",
    "<WORDS>": '[ str_split {string} " " ]',
}
_RULES = """
int
[ len {ints} ] : the number of elements in {ints} | the length of {ints} | the size of {ints}
[ reduce {ints} 0 + ] : the sum of {ints} | the total of {ints} | the result of adding up {ints}
[ reduce {ints} 1 * ] : the product of {ints} | the result of multiplying {ints} together
[ reduce {ints} [ - 0 inf ] max ] : the largest of {ints} | the maximum of {ints}
[ reduce {ints} inf min ] : the smallest of {ints} | the minimum of {ints}
[ head {ints} ] : the first of {ints} | the element at the beginning of {ints}
[ head [ reverse {ints} ] ] : the last of {ints} | the element at the end of {ints}
[ deref {ints} {int} ] : the element of {ints} at position {int} | element number {int} of {ints}
[ deref [ sort {ints} ] {int} ] : the element at position {int} after sorting {ints} | the value at
  index {int} of {ints} put in ascending order
[ deref [ sort {ints} ] [ / [ len {ints} ] 2 ] ] : the median of {ints} | the middle value of {ints}
[ / [ reduce {ints} 0 + ] [ len {ints} ] ] : the average of {ints} rounded down | the mean of {ints}
  as a whole number
[ - [ reduce {ints} [ - 0 inf ] max ] [ reduce {ints} inf min ] ] : the difference between the
  largest and the smallest of {ints} | how far the maximum of {ints} is above the minimum
[ deref [ reverse [ sort {ints} ] ] 1 ] : the second largest of {ints} | the runner up of {ints}
[ len [ filter {ints} {condition} ] ] : the number of elements in {ints} that are {condition} | how
  many of {ints} are {condition} | the count of values in {ints} which are {condition}
[ reduce [ filter {ints} {condition} ] 0 + ] : the sum of those of {ints} that are {condition} | the
  total of values in {ints} which are {condition}
[ len [ filter {ints} [ partial0 {int} == ] ] ] : the number of times {int} appears in {ints} | how
  often {int} occurs in {ints}
[ len <DISTINCT> ] : the number of distinct values in {ints} | how many different values {ints} has
[ reduce [ map <PAIRED> [ lambda1 [ * [ deref {ints} arg1 ] [ deref {ints2} arg1 ] ] ] ] 0 + ] : the
  dot product of {ints} and {ints2} | the sum of products of {ints} and {ints2} at equal positions
[ + {int} {int2} ] : the sum of {int} and {int2} | {int} plus {int2} | {int2} added to {int}
[ - {int} {int2} ] : the difference between {int} and {int2} | {int} minus {int2}
[ * {int} {int2} ] : the product of {int} and {int2} | {int} times {int2}
[ / {int} {int2} ] : {int} divided by {int2} rounded down | the whole part of {int} over {int2}
[ % {int} {int2} ] : the remainder of {int} divided by {int2} | {int} modulo {int2}
[ max {int} {int2} ] : the larger of {int} and {int2} | the maximum of {int} and {int2}
[ min {int} {int2} ] : the smaller of {int} and {int2} | the minimum of {int} and {int2}
[ abs [ - {int} {int2} ] ] : the distance between {int} and {int2}
[ square {int} ] : the square of {int} | {int} squared
[ reduce [ digits {int} ] 0 + ] : the sum of digits of {int} | the digits of {int} added up
[ len [ digits {int} ] ] : the number of digits in {int} | how many digits {int} has
[ reduce [ digits {int} ] 0 max ] : the largest digit of {int} | the biggest of the digits of {int}
[ reduce [ range 1 [ + 1 {int} ] ] 1 * ] : the factorial of {int} | {int} factorial
[ reduce [ range 0 {int} ] 0 + ] : the sum of numbers below {int} | the total of numbers under {int}
[ len [ filter [ range 0 {int} ] is_prime ] ] : the number of primes below {int} | how many prime
  numbers are smaller than {int}
[ invoke1 [ lambda1 [ if [ <= arg1 1 ] 0 [ + 1 [ self [ / arg1 2 ] ] ] ] ] {int} ] : the number of
  times {int} can be halved before it is at most one | how often you can divide {int} by two until
  one or less is left
[ invoke1 [ lambda1 [ if [ == [ len [ digits arg1 ] ] 1 ] 0 [ + 1 [ self [ reduce [ digits arg1 ] 0
  + ] ] ] ] ] {int} ] : how many times you can replace {int} with sum of its digits before it
  becomes a single digit number | the number of times {int} can be replaced with the sum of its
  digits until one digit is left
[ if {bool} {int} {int2} ] : {int} if {bool} or else {int2} | if {bool} then {int} otherwise {int2}
[ strlen {string} ] : the length of {string} | the number of characters in {string}
[ len <WORDS> ] : the number of words in {string} | how many words {string} has
[ len {strings} ] : the number of {strings} | how many there are of {strings}
[ reduce [ map {strings} strlen ] 0 + ] : the total length of {strings}
[ reduce [ map {strings} strlen ] 0 max ] : the greatest length among {strings}
ints
[ filter {ints} {condition} ] : elements of {ints} that are {condition} | values in {ints} which are
  {condition} | those of {ints} that are {condition} | only {condition} elements of {ints}
[ map {ints} {change} ] : {ints} with every element {change} | elements of {ints} each {change} |
  what {ints} becomes with each value {change}
[ sort {ints} ] : {ints} sorted in ascending order | {ints} in increasing order | sorted {ints}
[ reverse [ sort {ints} ] ] : {ints} sorted in descending order | the descending order of {ints}
[ reverse {ints} ] : {ints} reversed | {ints} in reverse order | the reverse of {ints}
[ tail {ints} ] : {ints} without the first element | all but the first of {ints}
[ slice {ints} 0 {int} ] : the first {int} elements of {ints} | {ints} cut after {int} elements
[ slice {ints} {int} [ len {ints} ] ] : {ints} from position {int} on | {ints} after {int} elements
[ slice {ints} {int} {int2} ] : elements of {ints} from position {int} up to position {int2} | the
  part of {ints} that starts at {int} and ends before {int2}
[ slice {ints} 0 [ / [ len {ints} ] 2 ] ] : the first half of {ints} | the front half of {ints}
[ slice {ints} [ / [ len {ints} ] 2 ] [ len {ints} ] ] : the second half of {ints}
[ map [ filter [ range 0 [ len {ints} ] ] [ lambda1 [ == [ % arg1 2 ] 0 ] ] ] [ partial0 {ints}
  deref ] ] : elements of {ints} at even positions | every second element of {ints} starting with
  the first
[ map [ filter [ range 0 [ len {ints} ] ] [ lambda1 [ == [ % arg1 2 ] 1 ] ] ] [ partial0 {ints}
  deref ] ] : elements of {ints} at odd positions | every second element of {ints} starting with the
  second
[ map <PAIRED> [ lambda1 [ + [ deref {ints} arg1 ] [ deref {ints2} arg1 ] ] ] ] : sums of elements
  of {ints} and {ints2} at equal positions | {ints} and {ints2} added position by position
[ append {ints} {int} ] : {ints} followed by {int} | {ints} with {int} appended at the end
<DISTINCT> : distinct values of {ints} in increasing order | {ints} sorted and without duplicates
[ digits {int} ] : digits of {int} | the digits that {int} is written with
[ range 0 {int} ] : numbers from zero up to but without {int} | all natural numbers less than {int}
[ map {strings} strlen ] : lengths of {strings} | the length of each of {strings}
condition
[ lambda1 [ == [ % arg1 2 ] 1 ] ] : odd | not divisible by two
[ lambda1 [ == [ % arg1 2 ] 0 ] ] : even | divisible by two
is_prime : prime
[ combine ! is_prime ] : not prime
[ lambda1 [ == [ digits arg1 ] [ reverse [ digits arg1 ] ] ] ] : palindromic
[ partial0 {int} < ] : greater than {int} | above {int} | larger than {int}
[ partial0 {int} > ] : less than {int} | below {int} | smaller than {int}
[ partial0 {int} <= ] : at least {int} | not smaller than {int} | greater than or equal to {int}
[ partial0 {int} >= ] : at most {int} | not larger than {int} | less than or equal to {int}
[ partial0 {int} != ] : different from {int} | not equal to {int} | other than {int}
[ lambda1 [ == [ % arg1 {int} ] 0 ] ] : divisible by {int} | multiples of {int}
[ partial0 {ints} contains ] : present in {ints} | also in {ints}
[ lambda1 [ && {test} {test2} ] ] : {test} and {test2} | both {test} and {test2}
[ lambda1 [ || {test} {test2} ] ] : {test} or {test2} | either {test} or {test2}
test
[ == [ % arg1 2 ] 1 ] : odd
[ == [ % arg1 2 ] 0 ] : even
[ is_prime arg1 ] : prime
[ > arg1 {int} ] : greater than {int} | above {int}
[ < arg1 {int} ] : less than {int} | below {int}
change
[ partial0 {int} * ] : multiplied by {int} | times {int}
[ partial0 {int} + ] : increased by {int} | plus {int}
[ partial1 {int} - ] : decreased by {int} | minus {int}
[ partial1 {int} / ] : divided by {int} and rounded down
[ partial1 {int} % ] : replaced by its remainder modulo {int}
[ partial0 {int} max ] : raised to {int} at least | replaced by {int} where it is smaller
[ partial0 {int} min ] : limited to {int} | replaced by {int} where it is larger
square : squared | multiplied by itself
abs : made positive | replaced by its absolute value
[ partial0 0 - ] : negated | with its sign changed
[ partial0 2 * ] : doubled
[ lambda1 [ reduce [ digits arg1 ] 0 + ] ] : replaced by the sum of its digits
[ combine len digits ] : replaced by its number of digits
[ lambda1 [ if {test} 0 arg1 ] ] : replaced by zero if it is {test} | set to zero when {test}
bool
[ is_sorted {ints} ] : {ints} is sorted | {ints} is in increasing order | {ints} never decreases
[ == {ints} [ reverse {ints} ] ] : {ints} is a palindrome | {ints} reads the same from both ends
[ contains {ints} {int} ] : {int} occurs in {ints} | {ints} contains {int}
[ invoke1 {condition} {int} ] : the value of {int} is {condition}
[ > {int} {int2} ] : {int} is greater than {int2} | {int} exceeds {int2}
[ < {int} {int2} ] : {int} is less than {int2} | {int} is below {int2}
[ == {int} {int2} ] : {int} equals {int2} | {int} and {int2} are equal
[ reduce [ map {ints} {condition} ] true && ] : all of {ints} are {condition} | every element of
  {ints} is {condition}
[ reduce [ map {ints} {condition} ] false || ] : any of {ints} is {condition} | some element of
  {ints} is {condition}
[ ! [ is_sorted {ints} ] ] : {ints} is not sorted | {ints} is out of order
[ ! [ contains {ints} {int} ] ] : {int} does not occur in {ints} | {ints} is without {int}
[ && {bool} {bool2} ] : both {bool} and {bool2}
[ || {bool} {bool2} ] : either {bool} or {bool2}
[ == {string} <REVERSED> ] : {string} is a palindrome | {string} reads the same backwards
[ < {string} {string2} ] : {string} comes before {string2} in the alphabet
[ > [ strlen {string} ] [ strlen {string2} ] ] : {string} is longer than {string2}
[ contains {strings} {string} ] : {string} occurs in {strings} | {strings} contains {string}
string
[ str_concat {string} {string2} ] : {string} followed by {string2} | {string} joined with {string2}
<REVERSED> : {string} reversed | {string} written backwards | the reverse of {string}
[ str_index {int} {string} ] : the character of {string} at position {int}
[ str_index 0 {string} ] : the first character of {string} | the letter that {string} starts with
[ str_min {string} {string2} ] : the alphabetically smaller of {string} and {string2}
[ str_max {string} {string2} ] : the alphabetically larger of {string} and {string2}
[ reduce [ map <WORDS> [ partial0 0 str_index ] ] "" str_concat ] : the first letters of the words
  of {string} | the acronym of {string}
[ head {strings} ] : the first of {strings} | the string at the beginning of {strings}
[ head [ reverse {strings} ] ] : the last of {strings} | the string at the end of {strings}
[ deref {strings} {int} ] : the string of {strings} at position {int}
[ reduce {strings} "" str_concat ] : {strings} joined together | the concatenation of {strings}
[ reduce {strings} "" str_max ] : the alphabetically last of {strings}
[ head [ sort {strings} ] ] : the alphabetically first of {strings}
[ if {bool} {string} {string2} ] : {string} if {bool} or else {string2} | if {bool} then {string}
  otherwise {string2}
strings
<WORDS> : words of {string} | {string} split into words | the words that {string} is made of
<CHARACTERS> : characters of {string} | letters of {string}
[ filter {strings} {string_condition} ] : those of {strings} that are {string_condition} | {strings}
  restricted to strings {string_condition}
[ map {strings} {string_change} ] : {strings} with each {string_change}
[ sort {strings} ] : {strings} in alphabetical order | alphabetically sorted {strings}
[ reverse {strings} ] : {strings} in reverse order | the reverse of {strings}
[ tail {strings} ] : {strings} without the first | all but the first of {strings}
[ slice {strings} 0 {int} ] : the first {int} of {strings}
[ append {strings} {string} ] : {strings} followed by {string} | {strings} with {string} added
string_condition
[ lambda1 [ > [ strlen arg1 ] {int} ] ] : longer than {int} | of more than {int} characters
[ lambda1 [ < [ strlen arg1 ] {int} ] ] : shorter than {int} | of fewer than {int} characters
[ partial0 {string} != ] : different from {string} | other than {string}
[ partial0 {string} < ] : alphabetically after {string}
string_change
[ partial0 {string} str_concat ] : preceded by {string} | prefixed with {string}
[ partial1 {string} str_concat ] : followed by {string} | extended by {string}
[ partial0 0 str_index ] : cut to its first character
"""


def _parse(text: str) -> dict[str, dict[str, list[str]]]:
    """Return the rules by category: each program, and the phrases that mean it."""
    for name, program in _ABBREVIATIONS.items():
        text = text.replace(name, program)
    rules: dict[str, dict[str, list[str]]] = {}
    for line in text.replace("\n  ", " ").strip().split("\n"):
        program, _, phrases = line.partition(" : ")
        if phrases:
            rules[[*rules][-1]][program] = phrases.split(" | ")
        else:
            rules[line] = {}
    return rules


PHRASES: Final[Mapping[str, Mapping[str, Sequence[str]]]] = _parse(_RULES)
