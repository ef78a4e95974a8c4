// Package mcpclient starts a program that speaks MCP on its standard input and output, and
// asks it for its tools and to run them.
//
// Start with [Start]. A [Client] is one process; who wants another one starts it.
//
// What the package promises:
//
//   - The program gets the environment that it is given and nothing else of the engine's,
//     has a process group of its own, and is ended with it: first by the end of its input,
//     then by a signal, then by force.
//   - It is asked nothing else than for its tools and their calls, and what it asks is
//     refused: no sampling, no elicitation, no roots.
//   - What it says is bounded: a line, the number of its tools, the size of each.
//   - Where it is gone while a call runs, the error is [ErrGone]: nobody knows what the
//     call did.
//
// Dependencies: github.com/modelcontextprotocol/go-sdk, the protocol in all of its
// revisions, by those who keep it.
package mcpclient
