// Package intake takes what agents and channels publish and makes commands of
// it for the engine.
//
// Start with [New], feed messages to [Intake.Agent] and [Intake.Channel], and
// run the workers with [Intake.Run].
//
// What the package promises:
//
//   - Who asks is the subject token that the server enforced, never what the
//     message says. An answer goes only under that identity's own inbox; a
//     request whose reply points elsewhere is dropped and counted.
//   - What is refused here is counted: one event per identity, reason and second.
//   - A request is decoded once, strictly. What is malformed but came from a
//     known identity becomes a recorded "reject" with field and reason.
//   - Redaction, digests and blobs are done here, before a command enters the
//     loop; only the tool's own arguments stay unredacted, in memory, and the
//     sender's name, which the catalog is asked for.
//   - What an agent or a channel writes is masked before an event has it. What is
//     compared by its bytes (a key) is refused where it would have to be masked.
//   - While the engine cannot act everything but a question for an outcome is
//     refused at once and nothing is written; the blob of a refused call goes.
//   - Each identity has a bounded queue, served in turn and in order: who sends
//     too much hears "busy" at once and starves nobody.
//
// Concurrency: Agent and Channel never block and are safe for concurrent use;
// for the order of one identity's requests call them from one goroutine.
package intake
