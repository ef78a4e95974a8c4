package alerts

import _ "embed" // for the example

// ExampleN8N is a workflow that n8n imports: it takes the format "json" and mails it. It
// answers when the mail is with the mail server, so that a failure is tried again. It does
// not check the signature: its own address is the secret.
//
//go:embed n8n-mail.json
var ExampleN8N string
