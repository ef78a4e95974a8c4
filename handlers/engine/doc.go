// Package engine is the loop: the one writer of the book.
//
// Start with [New] and [Engine.Run]; work enters by [Engine.Submit] as a
// [Command]. Run reads as its five steps: collect what waits, decide each
// command in order, commit the events of the cycle to the log, settle the views,
// and only then release: start the tools that were allowed and answer the rest.
// While the append of one cycle is on its way, the next is decided on top of it,
// in a transaction that stands on the one before; it is sent when that has
// settled, and dropped with it.
//
// What the package promises:
//
//   - No record, no action. A tool starts after its call.decided is durable; a
//     result leaves after its call.completed is durable.
//   - Exactly one end per call. Calls that a former writer left open end as
//     "unknown" right after this writer's engine.started.
//   - On an append that did not wholly succeed nothing is answered from memory:
//     the transaction is dropped, the log is read until it is known what is
//     durable, that is folded, and the rest is decided again, but for calls.
//   - While the book cannot be written, every command is refused and
//     [Engine.Health] says why; reading goes on.
//
// Concurrency: one goroutine (Run) owns the transactions, the waiters and the
// clock; an append on its way has another, and at most one is. Submit, Health and
// Catalog are safe for concurrent use. Every running tool has a goroutine whose
// end, or giving up, Run waits for. The package decides nothing itself:
// it reads facts from views, asks policy, and records the answer.
//
// Beside DESIGN, sections 3 and 4, in one place: a call whose append did not wholly
// succeed is answered "degraded" at once, because its caller need not wait for a
// book that may not answer for long. It is not decided again: where it turns out
// to be durable its tool is not started and it ends as "cancelled", else it is
// counted into an intake.refused.
package engine
