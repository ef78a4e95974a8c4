// Package redact masks secrets in arguments, results and file contents before
// anything of them is written to the book.
//
// Start with [New], then [Redactor.JSON] for canonical JSON and
// [Redactor.Text] for plain text. Both replace each secret by [Mask] and leave
// every other byte as it was. Callers redact first and cut afterwards, so that
// no half of a secret survives at the edge of a preview.
//
// What the package promises:
//
//   - A value is masked when its member name, flag or key names a secret
//     (name.go), and when it has a well-known form of a secret (form.go), at
//     any depth and inside any string. Where a rule must guess, it masks too
//     much rather than too little: only what is written down loses by that,
//     execution has the unredacted value.
//   - Canonical JSON in, canonical JSON out: member names are kept, numbers
//     that are no secret keep their bytes. A secret that is used as a member
//     name is therefore not masked.
//   - Redacting twice changes nothing more. The result is at most eight times
//     as long as the input.
//   - Every failure, a panic included, is an error that wraps [ErrRedaction],
//     and the value given back is then the mask alone. No error text holds a
//     byte of the input. The caller must refuse the call.
//   - Time is linear in the input. Input without any tell-tale word is not
//     even parsed (filter.go).
//
// What it cannot see: a secret that is encoded or split, one in prose without
// a sign ("my password is ..."), and the indented lines of a YAML block.
//
// A [Redactor] never changes after New and is safe for concurrent use.
//
// Dependency: go-json-experiment/json for its strict token reader and RFC 8785
// strings.
package redact
