package events

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
)

// Record is an event as the log keeps it: where, and exactly which bytes.
type Record struct {
	Seq     Seq // 0 before the append
	ID      EventID
	Subject string
	Body    []byte
}

// Leaf is the Merkle leaf of a record:
//
//	v1|<incarnation>|<seq>|<subject>|<sha256 of the body>
//
// It is known before the append: no server time, no header. The hash over it is
// RFC 6962's (see golang.org/x/mod/sumdb/tlog, RecordHash).
func Leaf(inc Incarnation, r Record) []byte {
	sum := sha256.Sum256(r.Body)
	leaf := make([]byte, 0, 192)
	leaf = append(leaf, "v1|"...)
	leaf = append(leaf, inc...)
	leaf = append(leaf, '|')
	leaf = strconv.AppendUint(leaf, uint64(r.Seq), 10)
	leaf = append(leaf, '|')
	leaf = append(leaf, r.Subject...)
	leaf = append(leaf, '|')
	return hex.AppendEncode(leaf, sum[:])
}
