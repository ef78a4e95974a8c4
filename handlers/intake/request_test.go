package intake

import (
	"strings"
	"testing"

	"gatebook/handlers/redact"
	"gatebook/handlers/strictjson"
	"gatebook/policy"
)

// Requests are decoded once and strictly; the refusal names the field.
func TestStrict(t *testing.T) {
	const round, handle = `"round":"01ARZ3NDEKTSV4RRFFQ69G5FAV"`, `"handle":"0123456789abcdef0123456789abcdef"`
	for name, c := range map[string]struct{ body, field string }{
		"O-R22 agentguard#1427 a kind of the caller's":     {`{` + round + `,` + handle + `,"tool":"x","principalKind":"human"}`, "principalKind"},
		"O-R22 mission-control#217 an id of the caller's":  {`{` + round + `,` + handle + `,"tool":"x","agent_id":"sup"}`, "agent_id"},
		"O-L09 mcp_agent_mail#99 a sender of the caller's": {`{` + round + `,` + handle + `,"tool":"x","sender":"HumanOverseer"}`, "sender"},
		"O-L10 omni#1166 a time of the caller's":           {`{` + round + `,` + handle + `,"tool":"x","timestamp":"2001-01-01T00:00:00Z"}`, "timestamp"},
		"O-R20 go-sdk#805 another case":                    {`{` + round + `,` + handle + `,"Tool":"x"}`, "Tool"},
		"O-R20 golang/go#14750 the same key twice":         {`{` + round + `,` + handle + `,"tool":"x","tool":"y"}`, "tool"},
		"O-R20 (var.) a second value":                      {`{` + round + `,` + handle + `,"tool":"x"}{"tool":"y"}`, "request"},
		"O-R20 (var.) a key that folds to another":         {`{` + round + `,` + handle + `,"tool":"x","` + "\u212a" + `ey":"k"}`, "\u212aey"},
		"not an object": {`[1]`, "request"},
		"empty":         {``, "request"},
		"wrong type":    {`{` + round + `,` + handle + `,"tool":7}`, "tool"},
	} {
		t.Run(name, func(t *testing.T) {
			var r callRequest
			bad := strictjson.Decode([]byte(c.body), &r)
			if bad == nil || !strings.Contains(bad.Field, c.field) || bad.Reason == "" {
				t.Errorf("%s gives %+v", c.body, bad)
			}
		})
	}
	var r callRequest
	if bad := strictjson.Decode([]byte(`{`+round+`,`+handle+`,"tool":"x","args":{"a":1}}`), &r); bad != nil {
		t.Errorf("(control) %v", bad)
	}
}

func TestHandleForm(t *testing.T) {
	for _, s := range []string{"", "0123456789ABCDEF0123456789ABCDEF", "0123456789abcdef0123456789abcde", "0123456789abcdef0123456789abcdeg"} {
		if _, bad := handleHash(s); bad == nil {
			t.Errorf("handle %q is taken", s)
		} else if s != "" && strings.Contains(bad.Error(), s) {
			t.Errorf("the error shows the handle")
		}
	}
}

// Whatever bytes come, decoding ends with a request or a fault, never a panic,
// and a request that was taken has ids in their one form.
func FuzzRequests(f *testing.F) {
	f.Add([]byte(`{"round":"01ARZ3NDEKTSV4RRFFQ69G5FAV","handle":"0123456789abcdef0123456789abcdef","call":"01ARZ3NDEKTSV4RRFFQ69G5FAV"}`))
	f.Add([]byte(`{"agent":"alice","sender":"anna","handle_hash":"` + strings.Repeat("0", 64) + `"}`))
	i := New(Config{Redact: redact.New()})
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, decode := range []func() *policy.Malformed{
			func() *policy.Malformed { _, bad := i.decodeOutcome("alice", data, nil); return bad },
			func() *policy.Malformed { _, bad := i.decodeAttach("alice", data, nil); return bad },
			func() *policy.Malformed { _, bad := i.decodeBegin("terminal", data, nil); return bad },
			func() *policy.Malformed {
				_, bad := i.decodeEnd(policy.RoundEndRequest{Channel: "terminal"}, data, nil)
				return bad
			},
		} {
			if bad := decode(); bad != nil && (bad.Field == "" || bad.Reason == "") {
				t.Errorf("a fault without field or reason: %+v", bad)
			}
		}
	})
}
