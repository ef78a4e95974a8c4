package identity

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"filippo.io/age/armor"
)

// raiseWork makes an encrypted file ask for more work than is allowed.
func raiseWork(t *testing.T, armored []byte) []byte {
	t.Helper()
	raw, err := io.ReadAll(armor.NewReader(bytes.NewReader(armored)))
	must(t, err)
	head, body, ok := strings.Cut(string(raw), "\n") // version
	stanza, rest, ok2 := strings.Cut(body, "\n")     // -> scrypt <salt> <factor>
	if !ok || !ok2 || !strings.HasSuffix(stanza, " 2") {
		t.Fatalf("not the file that was expected: %q", stanza)
	}
	raised := head + "\n" + strings.TrimSuffix(stanza, " 2") + " 21\n" + rest
	var out bytes.Buffer
	w := armor.NewWriter(&out)
	_, err = io.WriteString(w, raised)
	must(t, err)
	must(t, w.Close())
	return out.Bytes()
}
