// Package natsd runs the NATS server inside the engine's process and says who
// may connect to it.
//
// Start with [Start]; [Server.Engine] gives the engine's own connections.
//
// What the package promises:
//
//   - The server listens on the loopback address only. Its accounts share
//     nothing: there is no import and no export, and JetStream exists in ENGINE
//     alone.
//   - Over TCP a client is who its key says, after the server has verified the
//     signature over the nonce of this connection; user names, passwords, tokens
//     and JWTs count for nothing. One connection has one identity for all its
//     life. ENGINE and SYS are reachable from inside the process only.
//   - An identity may publish and subscribe what its lists name. An empty list
//     allows nothing; a list that is not understood refuses the login.
//   - Every acknowledged write of JetStream was fsynced: a server without
//     SyncAlways does not start.
//   - The server passes a message on as it is. It does not check reply subjects:
//     whoever answers MUST compare the reply with the inbox of the identity.
//
// Dependencies: nats-server is the server, nats.go the connections, nkeys the
// verification of signatures, go-json-experiment/json the decoding of the
// server's own events.
package natsd
