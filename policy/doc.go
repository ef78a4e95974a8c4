// Package policy says what may happen: the catalog and its rules, and the
// decisions on calls, rounds, agents and catalogs.
//
// Start with [Catalog] and [Compile], then [DecideCall], [BeginRound] and
// [Compare]. Every function is pure: it sees its arguments, reads no clock, does
// no IO, and gives the same answer for the same input. A refusal is an answer,
// not an error.
//
// What the package promises:
//
//   - Narrow only. A call is allowed when every layer allows it. The order of
//     rules never changes a verdict, deny wins, and an unknown value, an error
//     or an exceeded limit gives the narrowest result.
//   - The first layer that refuses is the one reported, with the rule and a
//     reason a person understands.
//
// The layers in force are 1 decode, 2 round, 3 tool, 4 phase, 5 baseline, 6 role,
// 7 profile, 8 principal and 9 ancestors; the others (DESIGN, section 8) put themselves
// behind them without a change to these.
//
// go-json-experiment/json is here for its strictness and the RFC 8785 form.
package policy
