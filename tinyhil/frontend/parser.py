"""Text of the DSL -> syntax tree: recursive descent, one method per rule of the grammar in docs/dsl.md."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeVar

from tinyhil.frontend.syntax import (
    Binary,
    Block,
    Call,
    Conditional,
    Declaration,
    Dims,
    Expression,
    Group,
    Index,
    Indexed,
    Input,
    Let,
    Literal,
    Loop,
    Name,
    Negated,
    Number,
    Option,
    Program,
    Sum,
    Transposed,
)
from tinyhil.frontend.tokens import BEYOND, INFINITE, Place, Token, tokens

T = TypeVar("T")

MAX_DEPTH = 60  # of nesting: what people write stays far below, Python's stack far above
MAX_CHAIN = 100  # of operators in a row, which nest to the left
MAX_INTEGER = 1 << 40
SUMS = ("+", "-", "<+>", "<->")
PRODUCTS = ("*", "/", "<*>", "|*|")
COMPARISONS = (">=", ">", "<=", "<", "==")


def parse(text: str) -> Program:
    """The program in `text`; DslError with line and column of the first mistake."""
    return Parser(text).program()


class Parser:
    """Lives for one text. Methods named after a rule read what the rule describes."""

    def __init__(self, text: str) -> None:
        self._tokens = list(tokens(text))
        self._next = 0
        self._depth = 0

    # ---- tokens

    def _peek(self, ahead: int = 0) -> Token:
        return self._tokens[min(self._next + ahead, len(self._tokens) - 1)]

    def _at(self, *texts: str) -> bool:
        token = self._peek()
        return token.text in texts and token.kind in ("mark", "keyword")

    def _accept(self, *texts: str) -> Token | None:
        return self._take() if self._at(*texts) else None

    def _take(self) -> Token:
        token = self._peek()
        self._next += 1
        return token

    def _expect(self, text: str, where: str) -> Token:
        if not self._at(text):
            raise self._peek().at.error(f"'{text}' expected {where}, not {self._peek()}")
        return self._take()

    def _name(self, what: str) -> str:
        if self._peek().kind != "name":
            raise self._peek().at.error(f"{what} expected, not {self._peek()}")
        return self._take().text

    def _list(self, item: Callable[[], T], end: str) -> list[T]:
        """Items with commas between them up to `end`, which is taken; may be empty."""
        items: list[T] = []
        while not self._at(end):
            items.append(item())
            if not self._accept(","):
                break
        self._expect(end, "at the end of the list")
        return items

    def _deeper(self, rule: Callable[[], T]) -> T:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise self._peek().at.error(f"nested deeper than {MAX_DEPTH} levels; give parts a name with let")
        result = rule()
        self._depth -= 1
        return result

    # ---- program, block, let

    def program(self) -> Program:
        """Inputs, then one block to the end of the text; DslError where it is no program."""
        inputs = []
        while self._at("input"):
            inputs.append(self._input())
        block = self.block("end")
        return Program(tuple(inputs), block)

    def _input(self) -> Input:
        at = self._take().at
        name = self._name("the name of the input")
        self._expect("=", "behind the name of the input")
        shape = self._dims()
        self._expect("in", "behind the shape")
        low, high = 1.0, 0.0
        if self._at("["):
            low, high = self._range()
            self._expect("in", "behind the range")
        return Input(at, name, shape, low, high)

    def block(self, end: str) -> Block:
        """Bindings and results up to `end` ('end': the end of the file), which is not taken."""
        at, lets = self._peek().at, []
        while self._at("let"):
            lets.append(self._let())
        results = []
        if not self._at(";"):  # a loop without states collects alone
            results.append(self.expression())
            while self._accept(","):
                results.append(self.expression())
        collected = []
        if self._accept(";"):
            collected.append(self.expression())
            while self._accept(","):
                collected.append(self.expression())
        token = self._peek()
        if token.text != end and token.kind != end:
            raise token.at.error(f"{'the end of the file' if end == 'end' else repr(end)} expected, not {token}")
        return Block(at, tuple(lets), tuple(results), tuple(collected))

    def _let(self) -> Let:
        at = self._take().at
        targets = [self._name("a name")]
        indices = self._indices() if self._at("[") else ()
        while not indices and self._accept(","):
            targets.append(self._name("a name"))
        self._expect("=", "behind the name")
        declared = self._declares()
        value = self._declaration() if declared else self.expression()
        self._expect("in", "behind the value")
        return Let(at, tuple(targets), indices, value)

    def _declares(self) -> bool:
        """Whether a shape in parentheses follows, then `in [`: values from the file beside the text."""
        ahead = 0
        if not self._at("("):
            return False
        while self._peek(ahead).text != ")":
            if self._peek(ahead).text not in ("(", ",") and self._peek(ahead).kind != "number":
                return False
            ahead += 1
        return self._peek(ahead + 1).text == "in" and self._peek(ahead + 2).text == "["

    def _declaration(self) -> Declaration:
        at = self._peek().at
        shape = self._dims()
        self._expect("in", "behind the shape")
        low, high = self._range()
        return Declaration(at, shape, low, high)

    def _dims(self) -> tuple[int, ...]:
        self._expect("(", "before the shape")
        return tuple(self._list(self._natural, ")"))

    def _range(self) -> tuple[float, float]:
        at = self._expect("[", "before the range").at
        low = float(self._signed())
        self._expect(",", "between the ends of the range")
        high = float(self._signed())
        self._expect("]", "behind the range")
        if not low <= high:
            raise at.error(f"the range begins at {low:g}, above its end {high:g}; exchange them")
        return low, high

    # ---- expressions, from the weakest operator to the strongest

    def expression(self) -> Expression:
        """One expression; DslError where it is none, or nested too deeply."""
        return self._deeper(self._conditional)

    def _conditional(self) -> Expression:
        left = self._chain(SUMS, self._product)
        if not self._at(*COMPARISONS):
            return left
        token = self._take()
        right = self._chain(SUMS, self._product)
        self._expect("?", "behind the condition")
        then = self.expression()
        self._expect(":", "between the two values")
        return Conditional(token.at, token.text, left, right, then, self.expression())

    def _product(self) -> Expression:
        return self._chain(PRODUCTS, self._unary)

    def _chain(self, operators: tuple[str, ...], operand: Callable[[], Expression]) -> Expression:
        left, length = operand(), 0
        while self._at(*operators):
            token = self._take()
            length += 1
            if length > MAX_CHAIN:
                raise token.at.error(f"more than {MAX_CHAIN} operators in a row; give parts a name with let")
            left = Binary(token.at, token.text, left, operand())
        return left

    def _unary(self) -> Expression:
        token = self._accept("-")
        if token is None:
            return self._postfix()
        operand = self._deeper(self._unary)
        if isinstance(operand, Literal) and operand.shape == ():
            return Literal(token.at, (), (-operand.values[0],))
        return Negated(token.at, operand)

    def _postfix(self) -> Expression:
        operand, length = self._primary(), 0
        while self._at("^T", "["):
            at = self._peek().at
            length += 1
            if length > MAX_CHAIN:
                raise at.error(f"more than {MAX_CHAIN} indices in a row; give parts a name with let")
            if self._at("["):
                operand = Indexed(at, operand, self._indices())
            else:
                self._take()
                operand = Transposed(at, operand)
        return operand

    def _primary(self) -> Expression:
        token = self._peek()
        if token.kind == "number":
            self._take()
            return Literal(token.at, (), (self._value(token),))
        if token.kind == "name":
            return self._call() if self._peek(1).text == "(" else Name(self._take().at, token.text)
        if self._at("loop"):
            return self._loop()
        if self._at("$"):
            return self._sum()
        if self._at("["):
            return self._bracketed()
        if self._accept("("):
            inside = self.expression()
            self._expect(")", "to close the parenthesis")
            return inside
        raise token.at.error(f"a value expected, not {token}")

    def _bracketed(self) -> Expression:
        """Numbers, nested as the rows of a tensor, or a group of expressions."""
        at = self._take().at
        items = self._list(self._item, "]")
        if not all(isinstance(item, Literal) for item in items):
            return Group(at, tuple(items))
        rows = [item for item in items if isinstance(item, Literal)]
        shapes = {row.shape for row in rows}
        if len(shapes) > 1:
            raise at.error(f"rows of different shapes {', '.join(str(list(s)) for s in sorted(shapes))}")
        shape = (len(rows), *(rows[0].shape if rows else ()))
        return Literal(at, shape, tuple(value for row in rows for value in row.values))

    def _item(self) -> Expression:
        """An expression; a plain number, of which there may be many, by the short way."""
        token = self._peek()
        if token.kind == "number" and self._peek(1).text in (",", "]"):
            return Literal(self._take().at, (), (self._value(token),))
        return self.expression()

    def _indices(self) -> tuple[Index, ...]:
        self._expect("[", "before the index")
        found = self._list(self._index, "]")
        if not found:
            raise self._peek().at.error("an index expected between the brackets")
        return tuple(found)

    def _index(self) -> Index:
        at = self._peek().at
        if self._accept(":"):
            return Index(at, None, None)
        start = self.expression()
        return Index(at, start, self._natural() if self._accept(":+") else None)

    # ---- calls, sums, loops

    def _call(self) -> Call:
        token = self._take()
        self._expect("(", "behind the name of the function")
        arguments: list[Expression | None] = []
        options: dict[str, Option] = {}
        braces: dict[str, tuple[int, ...]] = {}

        def argument() -> None:
            here = self._peek()
            if self._accept("{"):
                letter = self._name("a letter")
                braces[letter] = tuple(self._integers_up_to("}"))
            elif here.kind == "name" and self._peek(1).text == "=":
                self._take()
                self._take()
                options[here.text] = self._option()
            elif options or braces:
                raise here.at.error("values come before options")
            elif here.text == "_" and self._peek(1).text in (",", ")"):
                self._take()
                arguments.append(None)
            elif self._is_dims():
                arguments.append(Dims(here.at, self._dims()))
            else:
                arguments.append(self.expression())

        self._list(argument, ")")
        return Call(token.at, token.text, tuple(arguments), options, braces)

    def _is_dims(self) -> bool:
        """Whether integers in parentheses are the whole argument: a shape, not an expression."""
        ahead = 1
        if not self._at("("):
            return False
        while self._peek(ahead).text != ")":
            if self._peek(ahead).kind != "number" and self._peek(ahead).text != ",":
                return False
            ahead += 1
        return self._peek(ahead + 1).text in (",", ")")

    def _option(self) -> Option:
        token = self._peek()
        if token.kind == "string":
            return self._take().text[1:-1]
        if not self._accept("["):
            return self._signed()
        if self._peek().kind == "string":
            return [text.text[1:-1] for text in self._list(self._take, "]")]
        return self._list(self._signed, "]")

    def _integers_up_to(self, end: str) -> list[int]:
        values = []
        while not self._accept(end):
            values.append(self._natural())
        return values

    def _span(self, backward: bool) -> tuple[str, int, int]:
        """`i = [a:b]`; `backward`: a may lie above b."""
        variable = self._name("the variable of the loop")
        self._expect("=", "behind the variable")
        self._expect("[", "before the first step")
        start = self._natural()
        self._expect(":", "between the first step and the last")
        at, stop = self._peek().at, self._natural()
        self._expect("]", "behind the last step")
        if stop == start or (stop < start and not backward):
            raise at.error(f"no steps from {start} to {stop}; the end lies behind the last step")
        return variable, start, stop

    def _sum(self) -> Sum:
        at = self._take().at
        self._expect("(", "behind $")
        variable, start, stop = self._span(backward=False)
        self._expect(")", "behind the span")
        return Sum(at, variable, start, stop, self._deeper(self._unary))

    def _loop(self) -> Loop:
        at = self._take().at
        self._expect("(", "behind loop")
        variable, start, stop = self._span(backward=True)
        states, rows = [], []
        while self._accept(","):
            states.append(self._binding(True))
        if self._accept(";"):
            rows.append(self._binding(False))
            while self._accept(","):
                rows.append(self._binding(False))
        self._expect(")", "behind the states and rows")
        self._expect("{", "before the body")
        body = self._deeper(lambda: self.block("}"))
        self._take()
        return Loop(at, variable, start, stop, tuple(states), tuple(rows), body)

    def _binding(self, may_be_short: bool) -> tuple[str, Expression]:
        """`name = value`; a state that begins with the value of its own name may be `name` alone."""
        at, name = self._peek().at, self._name("a name")
        if may_be_short and not self._at("="):
            return name, Name(at, name)
        self._expect("=", "behind the name")
        return name, self.expression()

    # ---- numbers

    def _value(self, token: Token) -> Number:
        if not token.text.isdigit():
            value = float(token.text)
            if math.isinf(value) and token.text != INFINITE:
                raise token.at.error(BEYOND)
            return value
        return _limited(token.at, int(token.text))

    def _natural(self) -> int:
        token = self._peek()
        if token.kind != "number" or not token.text.isdigit():
            raise token.at.error(f"a whole number expected, not {token}")
        return _limited(token.at, int(self._take().text))

    def _signed(self) -> Number:
        minus, token = self._accept("-"), self._peek()
        if token.kind != "number":
            raise token.at.error(f"a number expected, not {token}")
        value = self._value(self._take())
        return -value if minus else value


def _limited(at: Place, value: int) -> int:
    if value > MAX_INTEGER:
        raise at.error(f"{value} is beyond the limit of {MAX_INTEGER}; write a real number with a point")
    return value
