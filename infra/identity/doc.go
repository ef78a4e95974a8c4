// Package identity keeps the keys that say who somebody is: nkeys of agents and
// channels in the data folder, nkeys of people outside it, and the key of the
// data folder's MACs.
//
// Start with [CreateKey] and [LoadKey] for agents and channels, [NewPeople] for
// people, [LoadMACKey] for MACs. [Options] turns a key into what a connection
// needs.
//
// What the package promises:
//
//   - A key file is never overwritten, and a key that is read from a file that
//     others may read, from a link, or from anything but a file is refused.
//   - A person's approving key is on the disk only encrypted with a passphrase.
//   - No error and no formatted value holds a secret. Seeds and passphrases in
//     byte slices are overwritten after use; copies inside the libraries and the
//     run time cannot be.
//
// Dependencies: nkeys are the keys of NATS, nats.go its connections; age
// encrypts with a passphrase and has a file format that other tools read; x/term
// reads without an echo.
package identity
