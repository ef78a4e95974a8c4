// Package paths reads workspace paths, and the patterns of them that rules are about.
//
// Start with [Parse] and [ParsePattern]. Everything here looks at texts alone: the
// same on every OS, with no file system asked.
//
// golang.org/x/text is here for the composed form of names (Unicode NFC), which the
// standard library does not know.
package paths
