// Package upstream runs the servers that the catalog declares, and offers their tools.
//
// Start with [New] and [Manager.Run]. Every second it compares what should run with what
// does: a server runs while the catalog in force declares it and a person has approved
// exactly how it is started.
//
// What the package promises:
//
//   - Nothing is started that nobody approved: another command, argument or variable is
//     another version, which is put on record, blocked, while the server is stopped.
//   - In phase 1 a server runs with what the catalog gives it for that; a change of the
//     phase starts it anew.
//   - A tool is the server's by its id and the tool's raw name. Of tools that a server
//     names twice neither is offered, and what it offers later is a tool like any other
//     that nobody knows.
//   - A server that ends is started again, after longer and longer waits; meanwhile its
//     tools are there, and fail. A call in whose middle it ended has no known end, and is
//     not repeated.
package upstream
