package config

import (
	"fmt"
	"reflect"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"gatebook/events"
	"gatebook/policy"
)

// schema is the part of JSON Schema 2020-12 that a catalog needs. An editor shows
// faults by it and offers names; what it cannot say, Parse still finds.
type schema struct {
	Dialect     string             `json:"$schema,omitzero"`
	Title       string             `json:"title,omitzero"`
	Ref         string             `json:"$ref,omitzero"`
	Description string             `json:"description,omitzero"`
	Type        []string           `json:"type,omitzero"`
	Const       any                `json:"const,omitzero"`
	Enum        []string           `json:"enum,omitzero"`
	Pattern     string             `json:"pattern,omitzero"`
	Minimum     *int               `json:"minimum,omitzero"`
	Required    []string           `json:"required,omitzero"`
	OneOf       []*schema          `json:"oneOf,omitzero"`
	Properties  map[string]*schema `json:"properties,omitzero"`
	Names       *schema            `json:"propertyNames,omitzero"`
	// Others is false, or the schema of every other member.
	Others any                `json:"additionalProperties,omitzero"`
	Items  *schema            `json:"items,omitzero"`
	Defs   map[string]*schema `json:"$defs,omitzero"`
}

// duration is what time.ParseDuration takes, without what is less than nothing.
const duration = `^(\+?((\d+(\.\d*)?|\.\d+)(ns|us|µs|μs|ms|s|m|h))+|0)$`

// toolName defines the names of tools.
const toolName = "tool-name"

// descriptions are for people, by the path of what they describe.
var descriptions = map[string]string{
	"schema":     "The version of this format.",
	"phase":      "The most that is offered to anybody: 1 only tools that read, 2 all tools. Without it 1.",
	"scopes":     "Named sets of tools, so that profiles and roles need not repeat them.",
	"baseline":   "What nobody may, whatever else allows it.",
	"content":    "Calls that are refused, or wait for a person, for what stands in their arguments.",
	"tools":      "What is declared about a tool.",
	"profiles":   "What a round may use; who talks in it decides which one it gets.",
	"principals": "Policies that narrow by who talks: by kind, by principal, by channel. All that are about a round hold.",
	"roles":      "What an agent is for: the calls that any of its grants covers.",
	"agents":     "The agents, each with a role and its own public key.",
	"channels":   "What brings inputs to agents, and who the names stand for that it gives.",
	"people":     "The people, and what they may do with gatebook itself.",
	"limits":     "Bounds; without a line the default holds.",
	"prices":     "What the tokens of models cost; the cost of a model without a price is not known.",

	"alerts":   "Where people are told of what happens, by HTTP.",
	"telegram": "The bot by which approvers see what waits and decide.",
	"servers":  "Programs whose tools are offered, by the name that stands before those of their tools.",
	"propose":  "What agents may propose for people to decide about; nothing without it.",

	"Destination.format":   "json, or slack; without it json.",
	"Destination.url":      "Where the address is found: a variable of the engine, or a file.",
	"Destination.secret":   "Where the key of the signature is found; without it nothing is signed.",
	"Source.env":           "The name of a variable of the engine.",
	"Source.file":          "The whole path of a file.",
	"Telegram.token":       "Where the bot's token is found.",
	"Telegram.server":      "Another server than Telegram's own.",
	"Telegram.chats":       "Who may use the bot, and who that is; anybody else gets no answer.",
	"Chat.chat":            "The id of the chat.",
	"Chat.user":            "The id of the user in it.",
	"Chat.person":          "Whom the user stands for: an approver.",
	"Chat.alerts":          "The chat gets the alerts too.",
	"Server.command":       "The whole path of the program, and its arguments.",
	"Server.env":           "Its variables.",
	"Server.secrets":       "Its variables whose values are found elsewhere.",
	"Server.read_only_env": "Its variables in phase 1.",
	"Server.trusted":       "What it says of its tools may lower their tier.",
	"Settings.enabled":     "Agents may propose; without it they may not.",
	"Settings.repository":  "The whole path of the git repository that gets the proposals.",
	"Settings.kinds":       "What can be proposed.",
	"Kind.folder":          "Where in the repository it goes; without it a folder of the kind's name.",
	"Kind.into":            "The folder that is kept equal to what is approved; without it there is none.",
	"Rule.paths":           "Patterns of workspace paths: * within one component, ** any number of them, <slug> one or more of a-z 0-9 -.",
	"Rule.exact":           "The whole of the arguments.",
	"Rule.create_only":     "Only a new file, and never one in the place of another; for a role's grant of file.write.",
	"Rule.max_per_round":   "So many calls of the tool in a round; for a role's grant.",
	"Rule.when":            "A condition in CEL over args, tool, agent, role, channel, conversation, principal.id, principal.kind, profile, step and used; without an answer it allows nothing and denies.",
	"Rule.tool":            "One tool, or a scope.",
	"Rule.scope":           "One scope, or a tool.",
	"Tool.private":         "Only rounds of jobs may use the tool.",
	"Tool.staging":         "approve: each call waits for a person. Without it, auto.",
	"Tool.approvers":       "How many people must approve a call that waits: 1, or 2 who are not who talks in the round.",
	"Role.approve":         "The tools of which each call of such an agent, or of one below it, waits for a person.",
	"Limits.review_time":   "How long a call waits for a person.",
	"Table.currency":       "The currency of all prices, by its code in three capital letters.",
	"Table.models":         "The prices of models, by their exact names.",
	"Limits.trash_age":     "How long the trash keeps what was deleted or replaced.",
	"Limits.trash_size":    "How many bytes the trash of one agent holds before the oldest of it goes.",
	"ContentRule.verdict":  "deny, or stage: such calls wait for a person.",
	"ContentRule.reason":   "What the agent hears; the pattern is not repeated to it.",
}

// Schema is the JSON Schema (2020-12) of the catalog file, indented, by the names
// that the file uses; extra is as for [policy.Compile]. It refuses nothing that
// [Parse] takes, but empty text where a line would be left out; Parse refuses more.
func Schema(extra ...string) ([]byte, error) {
	g := schemas{defs: map[string]*schema{"argument": argument(), toolName: {Enum: slices.Clone(extra)}}}
	for _, b := range policy.Builtins() {
		g.defs[toolName].Enum = append(g.defs[toolName].Enum, b.Name)
	}
	slices.Sort(g.defs[toolName].Enum)
	root := g.object(reflect.TypeFor[policy.Catalog](), "")
	root.Dialect, root.Title = "https://json-schema.org/draft/2020-12/schema", "The catalog of a gatebook"
	root.Properties["schema"].Const = 1
	root.Defs = g.defs
	out, err := json.Marshal(root, json.Deterministic(true), jsontext.WithIndent("  "))
	if err != nil {
		return nil, fmt.Errorf("write the schema: %w", err)
	}
	return append(out, '\n'), nil
}

// schemas makes the schemas of types; structs of which there can be many are
// defined once.
type schemas struct {
	defs map[string]*schema
}

func ref(def string) *schema { return &schema{Ref: "#/$defs/" + def} }

// argument is a value that Rule.Exact can hold.
func argument() *schema {
	return &schema{
		Type:  []string{"object", "array", "string", "integer", "boolean", "null"},
		Items: ref("argument"), Others: ref("argument"),
	}
}

// orNothing are the types of what may also be left open after its colon.
func orNothing(kind string) []string { return []string{kind, "null"} }

func (g schemas) of(t reflect.Type) *schema {
	switch t {
	case microsType:
		return &schema{Type: []string{"string"}, Pattern: duration, Description: "A time with its unit, such as 30s or 1h."}
	case jsonType:
		return &schema{Type: []string{"object"}, Others: ref("argument")}
	case rateType:
		return &schema{Type: []string{"number", "string"}, Pattern: `^(0|[1-9][0-9]{0,8})(\.[0-9]{1,6})?$`, Description: "The price of a million tokens; without the line it is not known."}
	case reflect.TypeFor[events.PublicKey]():
		return &schema{Type: []string{"string"}, Pattern: "^U[A-Z2-7]{55}$", Description: "A public key, U and 55 of A-Z 2-7."}
	case reflect.TypeFor[events.PrincipalKind]():
		return &schema{Enum: []string{string(events.PrincipalUser), string(events.PrincipalGroup)}}
	case reflect.TypeFor[events.Verdict]():
		return &schema{Enum: []string{string(events.Deny), string(events.Stage)}}
	case reflect.TypeFor[policy.Staging]():
		return &schema{Enum: []string{string(policy.StagingAuto), string(policy.StagingApprove)}}
	}
	switch t.Kind() {
	case reflect.Struct:
		if _, done := g.defs[t.Name()]; !done {
			g.defs[t.Name()] = &schema{} // the name is taken
			*g.defs[t.Name()] = *g.object(t, t.Name()+".")
		}
		return ref(t.Name())
	case reflect.Map:
		return g.entries(t)
	case reflect.Slice:
		return &schema{Type: orNothing("array"), Items: g.of(t.Elem())}
	case reflect.Int64: // an id, which may be below 0
		return &schema{Type: []string{"integer"}}
	case reflect.Int:
		least := 0
		return &schema{Type: []string{"integer"}, Minimum: &least}
	case reflect.Bool:
		return &schema{Type: []string{"boolean"}}
	default:
		return &schema{Type: []string{"string"}}
	}
}

// entries are those of a map, by the names that people choose.
func (g schemas) entries(t reflect.Type) *schema {
	s := &schema{Type: orNothing("object"), Others: g.of(t.Elem())}
	switch {
	case t.Elem() == reflect.TypeFor[policy.Tool]():
		s.Names = ref(toolName)
	case t.Key() == reflect.TypeFor[events.PrincipalKind]():
		s.Names = &schema{}
		for _, kind := range policy.Kinds() {
			s.Names.Enum = append(s.Names.Enum, string(kind))
		}
	}
	return s
}

// object is a struct by the names of its fields, as the decoder takes them.
func (g schemas) object(t reflect.Type, prefix string) *schema {
	s := &schema{Type: orNothing("object"), Properties: map[string]*schema{}, Others: false}
	for f := range t.Fields() {
		name, optional := fieldName(f)
		member := g.of(f.Type)
		switch {
		case name == "tool":
			member = ref(toolName)
		case (name == "tools" || name == "approve") && f.Type.Kind() == reflect.Slice:
			member.Items = ref(toolName)
		}
		if text, ok := descriptions[prefix+name]; ok {
			member.Description = text
		}
		s.Properties[name] = member
		// A list that is left out is empty and a version 0; text that is left out
		// names nothing.
		if !optional && (f.Type.Kind() == reflect.String || name == "schema") {
			s.Required = append(s.Required, name)
		}
	}
	if t == reflect.TypeFor[policy.Rule]() {
		s.OneOf = []*schema{{Required: []string{"tool"}}, {Required: []string{"scope"}}}
	}
	if len(s.Required) > 0 {
		s.Type = []string{"object"}
	}
	return s
}
