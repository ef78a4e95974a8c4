package strictjson_test

import (
	"strings"
	"testing"

	"gatebook/handlers/strictjson"
)

// Requests are read once and strictly; the refusal names the field and no value.
func TestDecode(t *testing.T) {
	for name, c := range map[string]struct{ body, field string }{
		"O-R22 agentguard#1427 a kind of the caller's": {`{"name":"x","principalKind":"human"}`, `"principalKind"`},
		"O-R20 go-sdk#805 another case":                {`{"Name":"x"}`, `"Name"`},
		"O-R20 golang/go#14750 the same key twice":     {`{"name":"x","name":"y"}`, `"name"`},
		"O-R20 (var.) a second value":                  {`{"name":"x"}{"name":"y"}`, "request"},
		"wrong type":                                   {`{"inner":{"n":"s3cret"}}`, `"inner.n"`},
		"not UTF-8":                                    {"{\"name\":\"\xff\"}", ""},
		"not an object":                                {`[1]`, "request"},
		"ends too early":                               {`{"name":`, `"name"`},
		"empty":                                        {``, "request"},
	} {
		t.Run(name, func(t *testing.T) {
			var into struct {
				Name  string `json:"name"`
				Inner struct {
					N int `json:"n"`
				} `json:"inner"`
			}
			bad := strictjson.Decode([]byte(c.body), &into)
			if bad == nil || c.field != "" && bad.Field != c.field || bad.Field == "" || bad.Reason == "" || strings.Contains(bad.Error(), "s3cret") {
				t.Errorf("%s gives %+v", c.body, bad)
			}
			if bad := strictjson.Decode([]byte(`{"name":"x"}`), &into); bad != nil || into.Name != "x" {
				t.Errorf("(control) %v", bad)
			}
		})
	}
}
