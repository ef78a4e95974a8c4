package redact

import (
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"pgregory.net/rapid"
)

// Made-up secrets in the forms that are known without a name.
var (
	seed   = "SUA" + strings.Repeat("B2", 27) + "C"
	jwt    = "eyJhbGciOiJFUzI1NiJ9.eyJzdWIiOiJhbGljZSJ9.c2lnbmF0dXJl-_0"
	pem    = "-----BEGIN OPENSSH PRIVATE KEY-----\nAAAAB3Nz\naC1yc2E=\n-----END OPENSSH PRIVATE KEY-----"
	bot    = "123456789:AA" + strings.Repeat("Fg3-_", 7)
	ageKey = "AGE-SECRET-KEY-1" + strings.Repeat("QPZRY9X8", 7)

	wellKnown = []string{
		seed, jwt, pem, bot, ageKey, "sk-test-AAAA1", "sk-proj-abcDEF123456", "ghp_" + strings.Repeat("a1B2", 9),
		"github_pat_11ABCDEFG0_" + strings.Repeat("x9", 20), "AKIAIOSFODNN7EXAMPLE", "xoxb-2222-3333-abcdef",
		"xoxp-2222-3333-abcdef", "AIza" + strings.Repeat("Sy-D_", 7),
	}
)

func TestJSON(t *testing.T) {
	for _, c := range []struct{ name, in, want string }{
		{"O-L03 openworker#397 below the top level",
			`{"auth":[{"private_key":"PK"}],"cfg":{"api-key":"k","apiKey":"k2","credential":"x"},"cookie":"c=1","headers":{"Authorization":"Bearer sk-test-AAAA"}}`,
			`{"auth":[{"private_key":"[redacted]"}],"cfg":{"api-key":"[redacted]","apiKey":"[redacted]","credential":"[redacted]"},"cookie":"[redacted]","headers":{"Authorization":"[redacted]"}}`},
		{"O-L04 5dive#881 items of a list",
			`{"args":["set","telegram.token=123:AAAA","--api-key=zz"]}`,
			`{"args":["set","telegram.token=[redacted]","--api-key=[redacted]"]}`},
		{"O-L04 5dive#881 text", `{"text":"log in with password: hunter2 then go on"}`, `{"text":"log in with password: [redacted] then go on"}`},
		{"O-L04 5dive#881 address", `["https://docs.example.com/?access_token=zz&page=2"]`, `["https://docs.example.com/?access_token=[redacted]&page=2"]`},
		{"O-L04 flag and value as two items", `["curl","--password","hunter2","-v"]`, `["curl","--password","[redacted]","-v"]`},
		{"O-L04 flag before another flag", `["x","--token","--verbose","a"]`, `["x","--token","--verbose","a"]`},
		{"O-L04 a masked flag announces nothing", `{"auth":["--token","--x"]}`, `{"auth":["[redacted]","[redacted]"]}`},
		{"O-L03 name and value as two members", `{"env":[{"name":"API_KEY","value":"k"},{"name":"HOME","value":"/h"}]}`,
			`{"env":[{"name":"API_KEY","value":"[redacted]"},{"name":"HOME","value":"/h"}]}`},
		{"O-L03 numbers, lists and objects under a secret name", `{"credentials":{"u":"bob"},"n":1.5e+300,"password":123456,"tokens":["a","b"]}`,
			`{"credentials":"[redacted]","n":1.5e+300,"password":"[redacted]","tokens":"[redacted]"}`},
		{"O-L03 scalar auth and its items", `{"a":{"auth":"x"},"auth":["bob","hunter2",{"pass":"x","user":"bob"},["y"]]}`,
			`{"a":{"auth":"[redacted]"},"auth":["[redacted]","[redacted]",{"pass":"[redacted]","user":"bob"},["[redacted]"]]}`},
		{"nothing to hide", `{"max_tokens":512,"password":"","secret":null,"token":false,"cookies":[],"session":{}}`,
			`{"max_tokens":512,"password":"","secret":null,"token":false,"cookies":[],"session":{}}`},
		{"ordinary names", `{"bypass":"a","keyboard":"b","monkey":"c","obsession":"d","path":"e","secretary":"f","tokenizer":"g"}`,
			`{"bypass":"a","keyboard":"b","monkey":"c","obsession":"d","path":"e","secretary":"f","tokenizer":"g"}`},
		{"O-L03 rustango#1097 JSON inside a string", `{"body":"{\"n\":1,\"password\":\"a\\\"b c\",\"user\":\"bob\"}"}`,
			`{"body":"{\"n\":1,\"password\":\"[redacted]\",\"user\":\"bob\"}"}`},
		{"O-L03 an object inside a string", `{"body":"{\"credentials\":{\"u\":\"x\"},\"user\":\"bob\"}"}`,
			`{"body":"{\"credentials\":[redacted],\"user\":\"bob\"}"}`},
		{"escaped member name", `{"\u0070assword":"hunter2"}`, `{"\u0070assword":"[redacted]"}`},
		{"escapes beside the secret", `{"c":"a\n\"q\" password=p\nb"}`, `{"c":"a\n\"q\" password=[redacted]\nb"}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, changed, err := New().JSON(jsontext.Value(c.in))
			if err != nil || string(got) != c.want || changed != (c.in != c.want) {
				t.Errorf("JSON(%s)\n got %s, %v, %v\nwant %s", c.in, got, changed, err, c.want)
			}
		})
	}
}

func TestEverySecretName(t *testing.T) {
	r := New()
	for _, name := range strings.Fields(`authorization proxy-authorization Proxy_Authorization password Passwd passphrase
		secret client_secret clientSecret token accessToken access_token refresh-token id_token api_key apikey api-key apiKey
		APIKey API_KEY private_key privateKey credential credentials cookie set-cookie Set-Cookie session sessionid session_id
		bearer auth signature connection_string connectionString seed nkey userAuth X-Amz-Signature db_password_2 x-api-key
		aws_secret_access_key telegram.token image-secret`) {
		in, _ := jsontext.AppendQuote([]byte("{"), name)
		got, changed, err := r.JSON(append(in, `:"CANARY"}`...))
		if err != nil || !changed || strings.Contains(string(got), "CANARY") || !strings.Contains(string(got), name) {
			t.Errorf("O-L03 name %s: %s, %v", name, got, err)
		}
		for _, form := range []string{name + "=CANARY", name + ": CANARY", "--" + name + "=CANARY", "--" + name + " CANARY", `"` + name + `": "CANARY"`} {
			if got, changed := r.Text(form); !changed || strings.Contains(got, "CANARY") || !strings.Contains(got, name) {
				t.Errorf("O-L04 %s: %s", form, got)
			}
		}
	}
}

func TestText(t *testing.T) {
	for _, c := range []struct{ name, in, want string }{
		{"O-L06 openworker#657 file with a key", "PORT=80\nexport API_KEY=CANARY2\nHOST=a\n", "PORT=80\nexport API_KEY=[redacted]\nHOST=a\n"},
		{"O-L06 quotes", `api_key = "a b, c" # note`, `api_key = "[redacted]" # note`},
		{"O-L06 quotes of another kind", `config['password'] = 'it"s'; go`, `config['password'] = '[redacted]'; go`},
		{"O-L06 bytes", `token = b"abc" + x`, `token = b"[redacted]" + x`},
		{"O-L06 code", `token := lexer.Next() // std::token::Kind, if token == nil`, `token := lexer.Next() // std::token::Kind, if token == nil`},
		{"O-L06 code with the secret in it", `password := "hunter2"`, `password := "[redacted]"`},
		{"O-L06 markup", `<user>bob</user><password>a b</password>`, `<user>bob</user><password>[redacted] b</password>`},
		{"O-L06 open quote", "password: \"abc def\nnext", "password: \"[redacted]\nnext"},
		{"O-L06 odd password", "password=a,b;c&d]e next", "password=[redacted] next"},
		{"O-L04 items", "(token=a, user=b); pwd=c;Uid=d", "(token=[redacted], user=b); pwd=[redacted];Uid=d"},
		{"header", "curl -H 'Cookie: a=1; b=2' -H \"Authorization: Basic eDp5\" https://x", "curl -H 'Cookie: [redacted]' -H \"Authorization: [redacted]\" https://x"},
		{"header line", "Set-Cookie: a=1; Path=/\r\nHost: x", "Set-Cookie: [redacted]\r\nHost: x"},
		{"bearer", "Bearer xyz and the bearer of news, bearer abcDEF1", "Bearer [redacted] and the bearer of news, bearer [redacted]"},
		{"basic", "Basic Ym9iOmh1bnRlcjI= and Basic usage", "Basic [redacted] and Basic usage"},
		{"userinfo", "ssh://git@h/x postgres://u:p@h:5432/db, http://h:80/@me a@b.c", "ssh://git@h/x postgres://[redacted]@h:5432/db, http://h:80/@me a@b.c"},
		{"userinfo with raw signs", "amqp://u:p/a@s@h/v", "amqp://[redacted]@h/v"},
		{"working directory and test report", "PWD=/work/x\n--- PASS: TestA", "PWD=/work/x\n--- PASS: TestA"},
		{"connection string", "connection_string=Server=a;Password=b c\nx", "connection_string=[redacted]\nx"},
		{"already masked and more", "password=[redacted]x)", "password=[redacted])"},
		{"signed address", "https://b.example/x?sv=1&sig=" + strings.Repeat("aB%2", 8) + "&se=2", "https://b.example/x?sv=1&sig=[redacted]&se=2"},
		{"public key", "-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----", "-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----"},
		{"private key without an end", "a\n-----BEGIN RSA PRIVATE KEY-----\nAAAA", "a\n[redacted]"},
		{"token behind an escape", "x%3Dghp_" + strings.Repeat("a1B2", 9), "x%3D[redacted]"},
		{"seeds without a gap", seed + seed, "[redacted]"},
		{"two parts are no web token", "eyJhbGciOiJFUzI1NiJ9.eyJzdWIiOiJhbGljZSJ9", "eyJhbGciOiJFUzI1NiJ9.eyJzdWIiOiJhbGljZSJ9"},
		{"ordinary words", "ask-about task-runner-config sk-learn-models AKIA disk-encryption", "ask-about task-runner-config sk-learn-models AKIA disk-encryption"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, changed := New().Text(c.in)
			if got != c.want || changed != (c.in != c.want) {
				t.Errorf("Text(%q)\n got %q, %v\nwant %q", c.in, got, changed, c.want)
			}
		})
	}
	for _, s := range wellKnown {
		if got, _ := New().Text("before " + s + " after"); got != "before [redacted] after" {
			t.Errorf("O-L04 well-known form %q: %q", s, got)
		}
	}
}

// O-L12: a secret at the edge of a preview is whole when it is masked, and
// what comes late is masked too.
func TestSecretAcrossThePreview(t *testing.T) {
	const preview = 256
	for before := preview - 70; before <= preview; before++ {
		in := `{"cmd":"` + strings.Repeat("x", before) + ` ` + seed + `; delete everything"}`
		got, _, err := New().JSON(jsontext.Value(in))
		if err != nil {
			t.Fatal(err)
		}
		cut := string(got[:min(preview, len(got))])
		if strings.Contains(cut, "SUA") || strings.Contains(string(got), seed) || !strings.HasSuffix(string(got), "; delete everything\"}") {
			t.Fatalf("O-L12 openworker#397: %s", got)
		}
	}
}

func TestFailures(t *testing.T) {
	boom := build(rule{literals: []string{"boom"}, find: func(s string, _ []span) []span { panic("at " + s) }})
	deep := func(n int) string {
		return strings.Repeat(`{"a":[`, n/2) + `"password=x"` + strings.Repeat(`]}`, n/2)
	}
	for _, c := range []struct {
		name string
		r    *Redactor
		in   string
	}{
		{"O-L16 trueforge#778 a rule panics", boom, `{"a":"boom CANARY"}`},
		{"too deep", New(), deep(maxDepth + 2)},
		{"deeper than any stack", New(), deep(1_000_000)},
		{"not JSON", New(), `{"token":"CANARY"`},
		{"not JSON, wrong end", New(), `["token"}`},
		{"not JSON, end first", New(), `]"token"`},
		{"a name twice", New(), `{"CANARY":1,"CANARY":"token=x"}`},
		{"bad UTF-8", New(), "[\"token=\xffCANARY\"]"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, changed, err := c.r.JSON(jsontext.Value(c.in))
			if !errors.Is(err, ErrRedaction) || string(got) != `"[redacted]"` || !changed {
				t.Fatalf("got %.80s, %v, %v", got, changed, err)
			}
			if strings.Contains(err.Error(), "CANARY") {
				t.Errorf("the error tells: %v", err)
			}
		})
	}
	if got, changed := boom.Text("boom CANARY"); got != Mask || !changed {
		t.Errorf("O-L16 text: %q, %v", got, changed)
	}
	if got, _, err := New().JSON(jsontext.Value(deep(maxDepth))); err != nil || strings.Contains(string(got), "=x") {
		t.Errorf("%d levels: %s, %v", maxDepth, got, err)
	}
}

// Rules whose places in the set are named.
func TestRulePlaces(t *testing.T) {
	r := New()
	if s := search(&r.filter, "token"); s != nameSet {
		t.Errorf("names: %b", s)
	}
	if s := search(&r.filter, seed); s != seedSet {
		t.Errorf("seeds: %b", s)
	}
	for _, n := range names {
		if r.kindOf(n.name) == 0 {
			t.Errorf("%s holds none of the literals, so it is never found", n.name)
		}
	}
}

func TestConcurrentUse(t *testing.T) {
	r := New()
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 50 {
				if got, _, err := r.JSON(jsontext.Value(`{"a":"token=x","password":"y"}`)); err != nil || string(got) != `{"a":"token=[redacted]","password":"[redacted]"}` {
					t.Errorf("%s, %v", got, err)
				}
			}
		})
	}
	all.Wait()
}

// Ordinary arguments are not even parsed.
func TestOrdinaryArgumentsCostNothing(t *testing.T) {
	r, in := New(), jsontext.Value(`{"content":"`+strings.Repeat("a line about the weather. ", 20)+`","path":"notes/w.md"}`)
	if n := testing.AllocsPerRun(10, func() { _, _, _ = r.JSON(in) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestReplace(t *testing.T) {
	if got := replace("0123456789", []span{{7, 8}, {1, 3}, {2, 4}, {2, 3}, {4, 5}}); got != "0[redacted]56[redacted]89" {
		t.Errorf("spans that touch have one mask: %s", got)
	}
}

// fragments give texts that are near secrets: pieces of what the rules know,
// put together at random.
func fragments() *rapid.Generator[string] {
	pieces := append([]string{
		"password", "token", "api", "_key", "Cookie", "auth", "pass", "pwd", "session", "tokens", "Bearer ", "bearer ", "Basic ", "sig=",
		"=", ":", ": ", " ", ">", "<", "\"", "'", "\\", "\\\"", "\n", ",", ";", "&", "?", "#", "@", "://", "[", "]", "{", "}", ".", "-", "--", "/",
		"abc", "Ab1", "12", "true", "ü", "\u2028", "`", Mask, "[redacted", "edacted]", "-----BEGIN PRIVATE KEY-----", "-----END ", "eyJ", "sk-", ":AA", "\\u0041",
	}, wellKnown...)
	return rapid.Map(rapid.SliceOfN(rapid.SampledFrom(pieces), 0, 24), func(p []string) string { return strings.Join(p, "") })
}

// values gives canonical JSON out of fragments.
func values() *rapid.Generator[jsontext.Value] {
	var value func(depth int) *rapid.Generator[string]
	quoted := rapid.Map(fragments(), func(s string) string {
		q, _ := jsontext.AppendQuote(nil, s)
		return string(q)
	})
	name := rapid.OneOf(quoted, rapid.SampledFrom([]string{
		`"auth"`, `"password"`, `"name"`, `"key"`, `"value"`, `"header"`, `"tokens"`, `"a"`, `"privateKey"`, `"pwd"`,
	}))
	value = func(depth int) *rapid.Generator[string] {
		scalar := rapid.OneOf(quoted, rapid.SampledFrom([]string{"0", "-1.5", "1e+30", "true", "null", `""`, "[]", "{}", `"--token"`, `"Cookie"`}))
		if depth == 0 {
			return scalar
		}
		return rapid.Custom(func(t *rapid.T) string {
			switch rapid.IntRange(0, 3).Draw(t, "shape") {
			case 0:
				return "[" + strings.Join(rapid.SliceOfN(value(depth-1), 0, 4).Draw(t, "list"), ",") + "]"
			case 1, 2:
				names := rapid.SliceOfNDistinct(name, 0, 4, func(s string) string { return s }).Draw(t, "names")
				for i := range names {
					names[i] += ":" + value(depth-1).Draw(t, "member")
				}
				return "{" + strings.Join(names, ",") + "}"
			}
			return scalar.Draw(t, "scalar")
		})
	}
	return rapid.Map(value(4), func(s string) jsontext.Value {
		v := jsontext.Value(s)
		if err := v.Canonicalize(); err != nil {
			panic(err)
		}
		return v
	})
}

func TestTextLaws(t *testing.T) {
	r := New()
	rapid.Check(t, func(t *rapid.T) {
		s := fragments().Draw(t, "text")
		checkText(t, r, s)
		if got, want := r.pass(s, search(&r.filter, s)), r.pass(s, ^ruleSet(0)); got != want {
			t.Fatalf("the filter hides something: %q, without it %q", got, want)
		}
	})
}

type fataler interface{ Fatalf(string, ...any) }

func checkText(t fataler, r *Redactor, s string) {
	once, changed := r.Text(s)
	if changed != (once != s) {
		t.Fatalf("changed = %v: %q to %q", changed, s, once)
	}
	if twice, again := r.Text(once); twice != once || again {
		t.Fatalf("once %q, twice %q", once, twice)
	}
	if len(once) > 8*len(s) {
		t.Fatalf("%q grew to %q", s, once)
	}
}

func TestJSONLaws(t *testing.T) {
	r := New()
	rapid.Check(t, func(t *rapid.T) {
		v := values().Draw(t, "value")
		once := checkJSON(t, r, v)
		if walked, _, err := r.walk(v); err != nil || string(walked) != string(once) {
			t.Fatalf("the filter hides something: %s, without it %s, %v", once, walked, err)
		}
	})
}

func checkJSON(t fataler, r *Redactor, v jsontext.Value) jsontext.Value {
	before := string(v)
	once, changed, err := r.JSON(v)
	if err != nil || string(v) != before || changed != (string(once) != before) {
		t.Fatalf("%s: %s, %v, %v", before, once, changed, err)
	}
	canonical := once.Clone()
	if err := canonical.Canonicalize(); err != nil || string(canonical) != string(once) {
		t.Fatalf("%s gave %s, canonical is %s, %v", v, once, canonical, err)
	}
	if twice, again, err := r.JSON(once); err != nil || again || string(twice) != string(once) {
		t.Fatalf("once %s, twice %s, %v", once, twice, err)
	}
	if len(once) > 8*len(v)+len(Mask)+2 {
		t.Fatalf("%s grew to %s", v, once)
	}
	return once
}

// What stands around a secret stays, whatever shape the secret is given in.
func TestTheRestIsReadable(t *testing.T) {
	r := New()
	rapid.Check(t, func(t *rapid.T) {
		word := rapid.StringMatching(`[a-z]{1,8}( [a-z]{1,8}){0,3}\.`)
		before, after := word.Draw(t, "before"), word.Draw(t, "after")
		value := rapid.StringMatching(`[A-Z0-9!$%*+/_-]{9,30}`).Draw(t, "secret")
		shape := rapid.SampledFrom([]string{"password=%s", "api-key: %s", `"token": "%s"`, "--secret %s", "--apiKey='%s'", "Bearer %s", "?access_token=%s"}).Draw(t, "shape")
		shape = rapid.SampledFrom([]string{shape, strings.Replace(shape, "%s", rapid.SampledFrom(wellKnown).Draw(t, "form"), 1)}).Draw(t, "which")
		secret := strings.Replace(shape, "%s", value, 1)
		got, changed := r.Text(before + " " + secret + " " + after)
		if !changed || strings.Contains(got, value) || !strings.HasPrefix(got, before) || !strings.HasSuffix(got, " "+after) {
			t.Fatalf("%q became %q", before+" "+secret+" "+after, got)
		}
	})
}

func FuzzText(f *testing.F) {
	for _, s := range append(wellKnown, "password=[redacted]x", "a://b:c/d@e", `"token":"\"`) {
		f.Add(s)
	}
	r := New()
	f.Fuzz(func(t *testing.T, s string) { checkText(t, r, s) })
}

func FuzzJSON(f *testing.F) {
	f.Add([]byte(`{"auth":[{"private_key":"PK"}],"n":1,"s":"password: hunter2"}`))
	f.Add([]byte(`["--token","x",{"name":"Cookie","value":"y"}]`))
	r := New()
	f.Fuzz(func(t *testing.T, raw []byte) {
		if got, _, err := r.JSON(raw); err != nil && (!errors.Is(err, ErrRedaction) || string(got) != `"[redacted]"`) {
			t.Fatalf("%q: %s, %v", raw, got, err)
		}
		if v := jsontext.Value(raw); v.Canonicalize() == nil {
			if _, _, err := r.JSON(v); err == nil { // else too deep
				checkJSON(t, r, v)
			}
		}
	})
}

func BenchmarkJSON(b *testing.B) {
	line := `a line about the weather in the north, with dots. `
	plain := func(n int) string {
		return `{"content":"` + strings.Repeat(line, n) + `","mode":"append","path":"notes/weather.md"}`
	}
	for _, c := range []struct{ name, in string }{
		{"600B plain", plain(11)},
		{"600B with a word that means nothing", strings.Replace(plain(11), "dots", "keys", 1)},
		{"600B with a secret", strings.Replace(plain(11), "weather", "password=hunter2 ", 1)},
		{"1MiB plain", plain(1 << 20 / len(line))},
		{"1MiB with a secret", strings.Replace(plain(1<<20/len(line)), "weather", "password=hunter2 ", 1)},
		{"768KiB of signs", `"token` + strings.Repeat(":", 768<<10) + `"`},
		{"768KiB of open lists", `"` + strings.Repeat("token:[", 768<<10/7) + `"`},
		{"768KiB of addresses", `"@` + strings.Repeat("://a:b/", 768<<10/7) + `"`},
		{"768KiB of names", `"` + strings.Repeat("password=a ", 768<<10/11) + `"`},
		{"768KiB of open quotes", `"` + strings.Repeat("token='", 768<<10/7) + `"`},
	} {
		b.Run(c.name, func(b *testing.B) {
			r := New()
			in := jsontext.Value(c.in)
			b.SetBytes(int64(len(in)))
			for b.Loop() {
				if _, _, err := r.JSON(in); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
