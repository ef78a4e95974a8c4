package projections

import (
	"fmt"
	"unicode/utf8"

	"github.com/fxamacker/cbor/v2"

	"gatebook/events"
)

// rowEncoding is RFC 8949's deterministic encoding, so that equal rows have
// equal bytes in every store.
var rowEncoding = must(cbor.CoreDetEncOptions().EncMode())

// rowDecoding refuses a row with more or fewer fields than today's struct, as
// every toarray struct does.
var rowDecoding = must(cbor.DecOptions{IndefLength: cbor.IndefLengthForbidden, TagsMd: cbor.TagsForbidden}.DecMode())

// must is for the two modes above, whose options are constants.
func must[T any](mode T, err error) T {
	if err != nil {
		panic(err)
	}
	return mode
}

func encodeRow(row any) ([]byte, error) {
	value, err := rowEncoding.Marshal(row)
	if err != nil {
		return nil, fmt.Errorf("encode %T: %w", row, err)
	}
	return value, nil
}

// loadRow reads the row of key into row, and says whether there is one.
func loadRow(r Reader, key []byte, row any) (bool, error) {
	value, err := r.Get(key)
	if err != nil || value == nil {
		return false, err
	}
	return true, decodeRow(value, row)
}

func decodeRow(value []byte, row any) error {
	if err := rowDecoding.Unmarshal(value, row); err != nil {
		return fmt.Errorf("%w: a row does not decode as %T: %w", ErrStore, row, err)
	}
	return nil
}

// storedPersonal is events.Personal as a row keeps it.
type storedPersonal struct {
	_                              struct{} `cbor:",toarray"`
	Text, KeyID, Nonce, Ciphertext string
}

func storePersonal(p events.Personal) storedPersonal {
	return storedPersonal{Text: p.Text, KeyID: p.Enc.KeyID, Nonce: p.Enc.Nonce, Ciphertext: p.Enc.Ciphertext}
}

func (s storedPersonal) personal() events.Personal {
	return events.Personal{Text: s.Text, Enc: events.Sealed{KeyID: s.KeyID, Nonce: s.Nonce, Ciphertext: s.Ciphertext}}
}

// preview cuts a plain text to events.MaxPreview bytes at the border of a rune.
// A sealed one stays whole: a cut ciphertext opens with no key.
func preview(p events.Personal) events.Personal {
	if len(p.Text) <= events.MaxPreview {
		return p
	}
	end := events.MaxPreview
	for end > 0 && !utf8.RuneStart(p.Text[end]) {
		end--
	}
	p.Text = p.Text[:end]
	return p
}

// storedCall is an AuditRow in the store.
type storedCall struct {
	_                            struct{} `cbor:",toarray"`
	Call                         events.CallID
	Round                        events.RoundID
	Conversation                 events.ConversationID
	Step                         int64
	Agent                        events.AgentID
	Role                         string
	ModelName, ModelKnown        string
	Channel                      events.ChannelID
	PrincipalID                  string
	PrincipalKind                events.PrincipalKind
	Profile                      string
	ToolOwner, Tool              string
	Key                          string
	MAC                          events.MAC
	ArgsPreview                  storedPersonal
	ArgsSize                     int64
	Verdict                      events.Verdict
	Status                       events.Status
	Layer                        events.Layer
	Rule, Reason, Error          string
	ResultSize                   int64
	ResultMAC                    events.MAC
	ResultPreview                storedPersonal
	ResultRedacted               bool
	ResultTruncated              bool
	ResultBlob                   events.Digest
	Executor                     events.Executor
	Tier                         events.Tier
	Duration                     events.Micros
	Decided, Released, Completed events.Instant
	Seq, CompletedSeq            events.Seq
	Catalog                      events.Digest
}

func storeCall(r AuditRow) storedCall {
	return storedCall{
		Call: r.Call, Round: r.Round, Conversation: r.Conversation, Step: r.Step, Agent: r.Agent, Role: r.Role,
		ModelName: r.Model.Name, ModelKnown: r.Model.Known, Channel: r.Channel,
		PrincipalID: r.Principal.ID, PrincipalKind: r.Principal.Kind, Profile: r.Profile,
		ToolOwner: r.Tool.Owner, Tool: r.Tool.Name, Key: r.Key, MAC: r.MAC,
		ArgsPreview: storePersonal(r.ArgsPreview), ArgsSize: r.ArgsSize,
		Verdict: r.Verdict, Status: r.Status, Layer: r.Layer, Rule: r.Rule, Reason: r.Reason, Error: r.Error,
		ResultSize: r.Result.Size, ResultMAC: r.Result.MAC, ResultPreview: storePersonal(r.Result.Preview),
		ResultRedacted: r.Result.Redacted, ResultTruncated: r.Result.Truncated, ResultBlob: r.Result.Blob, Executor: r.Executor,
		Tier: r.Tier, Duration: r.Duration, Decided: r.Decided, Released: r.Released, Completed: r.Completed,
		Seq: r.Seq, CompletedSeq: r.CompletedSeq, Catalog: r.Catalog,
	}
}

func (s storedCall) row() AuditRow {
	return AuditRow{
		Call: s.Call, Round: s.Round, Conversation: s.Conversation, Step: s.Step, Agent: s.Agent, Role: s.Role,
		Model: events.Model{Name: s.ModelName, Known: s.ModelKnown}, Channel: s.Channel,
		Principal: events.Principal{ID: s.PrincipalID, Kind: s.PrincipalKind}, Profile: s.Profile,
		Tool: events.ToolKey{Owner: s.ToolOwner, Name: s.Tool}, Key: s.Key, MAC: s.MAC,
		ArgsPreview: s.ArgsPreview.personal(), ArgsSize: s.ArgsSize,
		Verdict: s.Verdict, Status: s.Status, Layer: s.Layer, Rule: s.Rule, Reason: s.Reason, Error: s.Error,
		Result: events.Result{
			Size: s.ResultSize, MAC: s.ResultMAC, Preview: s.ResultPreview.personal(),
			Redacted: s.ResultRedacted, Truncated: s.ResultTruncated, Blob: s.ResultBlob,
		},
		Executor: s.Executor, Tier: s.Tier, Duration: s.Duration,
		Decided: s.Decided, Released: s.Released, Completed: s.Completed,
		Seq: s.Seq, CompletedSeq: s.CompletedSeq, Catalog: s.Catalog,
	}
}
