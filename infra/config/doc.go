// Package config reads and writes the catalog's file, gatebook.yaml.
//
// Start with [Load]; [First] makes the file of a new folder, [AddAgent] and its
// siblings change one entry of it, and [Write] puts it in place.
//
// What the package promises:
//
//   - Strict. Unknown and double keys, wrong types, anchors, aliases, tags, merge
//     keys and second documents are refused, and everything wrong is reported at
//     once, each with file, line and column. So is a public key with a wrong
//     checksum: nobody could ever log in with it.
//   - An edit changes the lines of its entry, and of the lists that may not name
//     it any more, and no others: comments, order and spelling stay. Its outcome
//     is read again and compared before it is given back, so an edit either means
//     exactly what was asked or fails.
//   - A file is replaced as a whole or not at all.
//
// The functions keep no state and are safe for concurrent use; two writers of
// one file must be kept apart by the caller.
//
// goccy/go-yaml is here because it gives the syntax tree with a line and a
// column for every node; nkeys because the checksum of a key is theirs to know; x/sys because
// it knows how a file is opened without waiting.
package config
