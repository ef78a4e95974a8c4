// Package when is the language of a rule's `when`: CEL expressions over the facts of
// one call, with a bound on what they may cost.
//
// cel.dev/cel-go is here because a language that people write rules in must be one
// that is specified elsewhere, that always ends, and whose types can be checked
// before a rule is in force. No other package imports it.
//
// The language is less than CEL. There is no time, no clock, no randomness and
// nothing from outside; no expression builds a value that is larger than its
// arguments, so that one step costs no more than can be foreseen; and members are
// walked in the order of their text. What an expression gives, and whether it is too
// costly, follows from the expression and [Vars] alone.
package when
