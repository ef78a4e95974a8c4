// Package jetlog keeps the book in a JetStream stream.
//
// Start with [Open]; a [Log] is an events.Log, and passes eventstest.TestLog.
//
// What the package promises:
//
//   - It never updates, purges or deletes a stream, and writes to none whose
//     settings are not the book's ([events.ErrSettings]).
//   - Every append is fenced. The expected last sequence is on every message
//     that the server stores on its own and on the first of an atomic batch. Of
//     pipelined singles each also names the one before it: if that one was
//     refused because another writer was first, the later ones are refused too,
//     even where their sequence fits again by chance.
//   - The first members of an atomic batch may go out before its append
//     ([Log.Ahead]): the server stores them aside. Only Append sends the last
//     member, which makes them part of the book, and only where its records begin
//     with those.
//   - It never retries. What it cannot know it calls in doubt; then [Log.Last]
//     reads from the leader. A record that is not there may still arrive late,
//     but the next append that expects the same end decides it: of the two
//     exactly one is stored.
//   - Header names come only from the code of this package, header values only
//     from numbers and names that it makes itself.
//   - "Durable" is fsynced, where the server runs with SyncAlways.
//
// A connection should have no buffer for reconnects (nats.ReconnectBufSize(-1)):
// then an append to a lost connection fails at once, with nothing stored.
//
// Dependencies: nats.go, the client of the server; go-json-experiment/json, for
// the answers of the server.
package jetlog
