// Package alerts delivers alerts to people: over HTTP itself, and through anything else
// that is a [Sender].
//
// Start with [NewHTTP], which makes a sender of a [Destination], then [New] and
// [Courier.Run] beside the engine. [Courier.Wake] says that there may be something to
// tell, [Courier.Status] how it went. What an alert is, and how repeats become one, is
// decided elsewhere; the courier asks an [Outbox] for what waits and tells it the outcome.
//
// What the package promises:
//
//   - At least once: an alert leaves the outbox only when its destination took it, or when
//     it was given up for the reason that is recorded with it. An outcome that could not be
//     recorded is recorded later; where the process ends before, the alert is sent again
//     after the start, with the same id.
//   - Each destination is on its own: none waits for another. In one, the oldest goes
//     first, and an alert that fails does not hold up the others.
//   - A destination in trouble (no connection, no answer in time, 408, 425, 429, 5xx, an
//     address or secret that cannot be read) is tried with one alert at a time, with waits
//     that double from 5 seconds to 2 hours, each a quarter more or less by chance, and not
//     before a Retry-After of at most an hour (429, 503) is over. After 23 failures, which
//     take about a day, the alerts that waited all the while are given up: one attempt
//     stands for all of them. What the destination refuses (3xx, other 4xx, an address that
//     may not be used) holds up that alert alone, and is given up at the third time.
//   - Nobody who calls Wake ever waits.
//   - No error, status or recorded reason has the address, any part of it, the secret, or
//     a byte of the answer. Addresses and secrets are read for each attempt and not kept.
//   - No redirect is followed, no proxy of the environment is used, and http is spoken with
//     this machine alone.
//
// # What is sent
//
// A POST with the headers
//
//	Content-Type: application/json
//	Idempotency-Key: <id>
//	X-Gatebook-Timestamp: <unix seconds, decimal>   (with a secret)
//	X-Gatebook-Signature: sha256=<64 hex digits>    (with a secret)
//
// The signature is HMAC-SHA256, under the secret as it is read, of the text of the
// timestamp, one ".", and the exact bytes of the body. Who checks it compares in constant
// time, refuses a timestamp that is more than 5 minutes from the own clock, and remembers
// the ids of that time: a captured request is then worth nothing. A repeat of an alert has
// the same id and a new timestamp.
//
// The format "json" is one object, with all of these fields:
//
//	id     string  "<event>-<part>", the same for each repeat; ids of alerts are unique
//	event  string  the id of the event that it is about
//	part   number  0 for the first message about it, n for later ones
//	kind   string  such as "asset_blocked", "digest", "degraded"; it, of and agent are one
//	               line of at most 256 bytes each
//	of     string  what it is about: a tool, the id of an asset
//	agent  string  "" where it is about none
//	text   string  lines for people, at most 4096 bytes
//	count  number  how many of its kind it stands for
//	first  string  time of the first of them, RFC 3339 in UTC with six digits of a second
//	last   string  time of the last
//	seq    number  the position of the event in the book
//
// The format "slack" is {"text": "..."}. Its text has &, < and > as Slack wants them, and
// nothing in it can mention anybody, or become a link by its own signs, in Slack or in a
// chat that reads the same shape: @ is written ＠ (U+FF20), :// is written [:]//, and ](
// gets a space. In both formats control characters, marks that turn text round, and
// characters without a shape are escaped as in Go, line ends of text aside.
//
// [ExampleN8N] is a workflow for n8n that mails the format "json".
//
// Concurrency: Run is one goroutine for each destination, which alone has the state of that
// destination; it ends when its context does. Wake and Status are safe for concurrent use,
// and so is an [HTTP].
package alerts
