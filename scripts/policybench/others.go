package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/casbin/casbin/v2"
	"github.com/casbin/casbin/v2/model"
	"github.com/cedar-policy/cedar-go"
	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/rego"
)

// newCedar writes a policy for each rule.
func newCedar(list []rule) (decider, error) {
	var text strings.Builder
	for _, r := range list {
		fmt.Fprintf(&text, "permit(principal, action == Action::%q, resource) when { context.path like \"%s/*\" };\n", r.tool, r.folder)
	}
	policies, err := cedar.NewPolicySetFromBytes("rules.cedar", []byte(text.String()))
	if err != nil {
		return nil, err
	}
	entities := cedar.EntityMap{}
	return func(ask call) (func() (bool, error), error) {
		req := cedar.Request{
			Principal: cedar.NewEntityUID("Agent", "alice"),
			Action:    cedar.NewEntityUID("Action", cedar.String(ask.tool)),
			Resource:  cedar.NewEntityUID("Workspace", "alice"),
			Context:   cedar.NewRecord(cedar.RecordMap{"path": cedar.String(ask.path)}),
		}
		return func() (bool, error) {
			ok, why := cedar.Authorize(policies, entities, req)
			if len(why.Errors) > 0 {
				return false, fmt.Errorf("%v", why.Errors)
			}
			return bool(ok), nil
		}, nil
	}, nil
}

// newOPA writes a rule for each rule, which OPA indexes by the tool, and prepares
// the query.
func newOPA(list []rule) (decider, error) {
	var text strings.Builder
	text.WriteString("package gate\n\ndefault allow := false\n")
	for _, r := range list {
		fmt.Fprintf(&text, "\nallow if {\n\tinput.tool == %q\n\tstartswith(input.path, %q)\n}\n", r.tool, r.folder+"/")
	}
	ctx := context.Background()
	query, err := rego.New(rego.Query("data.gate.allow"), rego.Module("gate.rego", text.String())).PrepareForEval(ctx)
	if err != nil {
		return nil, err
	}
	return func(ask call) (func() (bool, error), error) {
		input, err := ast.InterfaceToValue(map[string]any{"tool": ask.tool, "path": ask.path})
		return func() (bool, error) {
			found, err := query.Eval(ctx, rego.EvalParsedInput(input))
			return found.Allowed(), err
		}, err
	}, nil
}

// newCasbin adds a policy line for each rule.
func newCasbin(list []rule) (decider, error) {
	m, err := model.NewModelFromString(`
[request_definition]
r = sub, obj, act
[policy_definition]
p = sub, obj, act
[policy_effect]
e = some(where (p.eft == allow))
[matchers]
m = r.act == p.act && r.sub == p.sub && keyMatch(r.obj, p.obj)
`)
	if err != nil {
		return nil, err
	}
	e, err := casbin.NewEnforcer(m)
	if err != nil {
		return nil, err
	}
	for _, r := range list {
		if _, err := e.AddPolicy("alice", r.folder+"/*", r.tool); err != nil {
			return nil, err
		}
	}
	return func(ask call) (func() (bool, error), error) {
		return func() (bool, error) { return e.Enforce("alice", ask.path, ask.tool) }, nil
	}, nil
}
