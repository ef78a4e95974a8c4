package main

import (
	"context"
	"encoding/json"
	"os"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// mcpTest is a server of tools, for scripts. It writes down what it does in the file that
// RAN names.
func mcpTest() {
	s := mcp.NewServer(&mcp.Implementation{Name: "mcptest", Version: "1"}, nil)
	add := func(name string, reads bool, run func() string) {
		t := &mcp.Tool{Name: name, Description: "does " + name + ", version " + os.Getenv("VERSION"), InputSchema: json.RawMessage(`{"type":"object"}`)}
		if reads {
			t.Annotations = &mcp.ToolAnnotations{ReadOnlyHint: true}
		}
		s.AddTool(t, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			if f, err := os.OpenFile(os.Getenv("RAN"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600); err == nil {
				_, _ = f.WriteString(name + "\n")
				_ = f.Close()
			}
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: run()}}}, nil
		})
	}
	add("look", true, func() string { return "looked" })
	add("mode", true, func() string {
		return "read only is <" + os.Getenv("READ_ONLY") + ">, the token has " + os.Getenv("TOKEN")[:1] + "…, engine: <" + os.Getenv("CANARY") + ">"
	})
	add("send", false, func() string { return "sent" })
	add("die", true, func() string { os.Exit(7); return "" })
	add("grow", true, func() string {
		add("c", true, func() string { return "c ran" })
		return "there is a tool more"
	})
	_ = s.Run(context.Background(), &mcp.StdioTransport{})
}
