package policies

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/trafficguard-go/trafficguard/guard"
	"github.com/trafficguard-go/trafficguard/limit"
	"github.com/trafficguard-go/trafficguard/resolver"
	"github.com/trafficguard-go/trafficguard/store"
	"github.com/trafficguard-go/trafficguard/store/memory"
)

// A RateLimit is a policy that limits what each subject does over time. It answers 429 with the code
// rate_limit_exceeded and the time after which the same request passes. Build it with [UserRateLimit]. It is
// immutable and safe for concurrent use.
type RateLimit struct {
	guard.Base

	name      string
	shape     string // keeps policies without a name apart
	elseShape string // keeps who is counted by Else apart from the others
	rule      *limit.Rule
	subject   resolver.Func
	elseRule  *limit.Rule // nil: no Else
	elseOf    resolver.Func
	plan      resolver.Func // nil: no plans
	plans     map[string]*limit.Rule
	exempt    []resolver.Predicate
	cost      int64
	costOf    func(x guard.Exchange) (int64, error) // nil: cost
	store     store.RateStore
	headers   guard.HeaderFormat
	mode      guard.FailureMode
	requires  guard.Requirement
	nobody    *guard.Rejection // nil: let pass
	chargeIf  func(guard.Outcome) bool
	settled   bool
	charges   sync.Pool // of *charge
}

// UserRateLimit limits each subject to l. Requests in which subject finds nobody are answered with 401, unless an
// option says otherwise. It panics with all faults of the configuration at once; [NewUserRateLimit] returns them.
func UserRateLimit(l limit.Limit, subject resolver.Func, opts ...RateOption) *RateLimit {
	p, err := newRateLimit("UserRateLimit", l, subject, opts)
	if err != nil {
		panic(err)
	}
	return p
}

// NewUserRateLimit is [UserRateLimit] for configuration that comes from outside the program. The error joins a
// [*ConfigError] for each fault.
func NewUserRateLimit(l limit.Limit, subject resolver.Func, opts ...RateOption) (*RateLimit, error) {
	return newRateLimit("NewUserRateLimit", l, subject, opts)
}

func newRateLimit(constructor string, l limit.Limit, subject resolver.Func, opts []RateOption) (*RateLimit, error) {
	s := rateSettings{Limit: l, Subject: subject, Cost: 1, Challenge: "Bearer"}
	for _, o := range opts {
		if o != nil {
			o.applyRate(&s)
		}
	}
	if !s.stored {
		s.Store = memory.New()
	}
	if err := s.check(constructor); err != nil {
		return nil, err
	}
	return s.build()
}

// build turns checked settings into a policy.
func (s *rateSettings) build() (*RateLimit, error) {
	p := &RateLimit{
		name: s.Name, subject: s.Subject, exempt: s.Exempt, cost: int64(s.Cost), costOf: s.CostOf,
		store: s.Store, headers: s.Headers, mode: s.FailureMode, chargeIf: s.ChargeIf, settled: s.Settled,
	}
	p.charges.New = func() any { return new(charge) }
	if !store.IsLocal(s.Store) {
		p.requires = guard.RequireBudget
	}
	if p.chargeIf != nil {
		p.requires |= guard.RequireStatus
	}
	if s.Name == "" {
		p.shape = strings.ReplaceAll(s.Limit.String(), " ", "")
	}
	p.elseShape = p.shape + "else"
	if !s.AdmitUnidentified {
		p.nobody = &guard.Rejection{Code: guard.ClientUnidentified, Challenge: s.Challenge}
	}
	var faults []error
	compile := func(l limit.Limit) *limit.Rule {
		r, err := l.Compile()
		faults = append(faults, err)
		return r
	}
	p.rule = compile(s.Limit)
	if s.Else != nil {
		p.elseRule, p.elseOf = compile(s.Else.Limit), s.Else.Subject
	}
	if s.Plans != nil {
		p.plan, p.plans = s.Plans.Plan, make(map[string]*limit.Rule, len(s.Plans.Limits))
		for name, l := range s.Plans.Limits {
			p.plans[name] = compile(l)
		}
	}
	if err := errors.Join(faults...); err != nil {
		return nil, err
	}
	p.shareDebts()
	return p, nil
}

// shareDebts has the policy's own limit and those of the plans honour each other's debts: they count one subject under one
// key.
func (p *RateLimit) shareDebts() {
	all := slices.Collect(maps.Values(p.plans))
	all = append(all, p.rule)
	p.rule = p.rule.Beside(all...)
	for name, r := range p.plans {
		p.plans[name] = r.Beside(all...)
	}
}

// PolicyName returns the name given with [Named], "" if there is none.
func (p *RateLimit) PolicyName() string { return p.name }

// FailureMode returns what [FailOpen] or [FailClosed] said.
func (p *RateLimit) FailureMode() guard.FailureMode { return p.mode }

// Requires asks for the chain's budget if the store is on another machine, and for the status if [ChargeIf] needs it.
func (p *RateLimit) Requires() guard.Requirement { return p.requires }

// Before charges the request to its subject, or refuses it.
func (p *RateLimit) Before(ctx context.Context, x guard.Exchange) (guard.Decision, error) {
	var b *bill
	if p.settled { // whatever becomes of the request: its handler need not know that it is free, or that the store is down
		b = p.bill(x) //nolint:contextcheck // the exchange carries it
	}
	c, err := p.count(x)
	if err != nil {
		return faulty(err)
	}
	if c.pass || c.rule == nil && p.nobody == nil {
		return guard.Decision{}, nil
	}
	if c.rule == nil {
		return guard.Decision{Rejection: p.nobody}, nil
	}
	var route guard.Route // which a name makes needless
	if p.name == "" {
		route = x.Route()
	}
	request := store.Request{Key: p.key(c.who, route, c.rule), Rule: c.rule, Cost: c.cost}
	grant, err := p.take(ctx, request)
	if errors.Is(err, store.ErrSaturated) {
		// Not the failure mode's: a flood that this process cannot even ask about would switch the limit off.
		return guard.Decision{Rejection: &guard.Rejection{Code: guard.Overloaded, Wait: time.Second, Spread: 2 * time.Second, Cause: err}}, nil
	}
	if err != nil {
		return guard.Decision{}, err
	}
	rule := c.rule
	if grant.Rule != nil { // a stand-in's
		rule = grant.Rule
	}
	d := guard.Decision{Quota: p.quota(rule, grant.Verdict), Degraded: grant.Degraded}
	if !grant.OK {
		d.Rejection = refusal(grant.Verdict)
		return d, nil
	}
	d.State = p.charge(grant.Receipt(request), b)
	return d, nil
}

// take asks the store. Finding out who is calling was the client's time, or the program's; this is the store's.
func (p *RateLimit) take(ctx context.Context, r store.Request) (store.Grant, error) {
	if p.requires&guard.RequireBudget == 0 {
		return p.store.Take(ctx, r)
	}
	ctx, done := guard.WithinBudget(ctx)
	defer done()
	return p.store.Take(ctx, r)
}

// A counted request is one of: let pass, nobody's (rule is nil), or who's, under rule, at cost.
type counted struct {
	who  resolver.Subject
	rule *limit.Rule
	cost int64
	pass bool
}

// errNoKind is the fault of a resolver of the application's own: subjects of different sources would be mixed up.
var errNoKind = errors.New("policies: the resolver found a subject without a Kind")

// count finds out who is to be charged, how much, and under which limit.
func (p *RateLimit) count(x guard.Exchange) (counted, error) {
	for _, exempt := range p.exempt {
		if yes, err := exempt(x); yes || err != nil {
			return counted{pass: yes}, err
		}
	}
	who, err := p.subject(x)
	if err != nil || who.IsExempt() {
		return counted{pass: true}, err
	}
	if who.Kind == "" && who.Value != "" {
		return counted{}, &resolver.Fault{
			Status: http.StatusServiceUnavailable, Detail: "the service cannot identify clients", Cause: errNoKind,
		}
	}
	c := counted{who: who, rule: p.rule, cost: p.cost}
	switch {
	case !who.IsAbsent():
		err = p.choosePlan(x, &c)
	case p.elseRule != nil:
		c.rule = p.elseRule
		c.who, err = p.elseOf(x)
	}
	if c.who.IsExempt() {
		c.pass = true
	}
	if c.who.IsAbsent() {
		c.rule = nil
	}
	if err != nil || c.pass || c.rule == nil || p.costOf == nil {
		return c, err
	}
	c.cost, err = p.costOf(x)
	if err == nil && c.cost < 1 {
		err = &resolver.Fault{Status: http.StatusBadRequest, Detail: "the cost of the request is out of range"}
	}
	return c, err
}

// choosePlan replaces the policy's own limit by that of the subject's plan, if it has one.
func (p *RateLimit) choosePlan(x guard.Exchange, c *counted) error {
	if p.plan == nil {
		return nil
	}
	plan, err := p.plan(x)
	if err != nil {
		return err
	}
	c.pass = plan.IsExempt()
	if r, ok := p.plans[plan.Value]; ok {
		c.rule = r
	}
	return nil
}

// key says whose budget is charged. It never holds what a client can choose, but for the subject's value.
func (p *RateLimit) key(who resolver.Subject, route guard.Route, rule *limit.Rule) store.Key {
	k := store.Key{Policy: p.name, Shape: p.shape, Kind: who.Kind, Subject: who.Value}
	if rule == p.elseRule {
		k.Shape = p.elseShape
	}
	if p.name != "" {
		return k
	}
	k.Method, k.Pattern = route.Method, route.Pattern
	if k.Method == http.MethodHead {
		k.Method = http.MethodGet
	}
	if k.Pattern == "" {
		k.Method = "*"
	}
	return k
}

func (p *RateLimit) quota(r *limit.Rule, v limit.Verdict) guard.Quota {
	return guard.Quota{Format: p.headers, Limit: r.Burst(), Remaining: v.Remaining, Window: r.Window(), Reset: v.Full}
}

// refusal turns a verdict that is not OK into what the client is told.
func refusal(v limit.Verdict) *guard.Rejection {
	if v.Wait == limit.Never {
		return &guard.Rejection{Code: guard.CostExceedsLimit, Wait: guard.Never}
	}
	return &guard.Rejection{Code: guard.RateLimitExceeded, Wait: v.Wait}
}

// faulty tells the client what is wrong with its request, or the chain that the policy could not decide.
func faulty(err error) (guard.Decision, error) {
	var f *resolver.Fault
	if !errors.As(err, &f) {
		return guard.Decision{}, err
	}
	rej := &guard.Rejection{Code: guard.InvalidRequest, Status: f.Status, Detail: f.Detail, Cause: err}
	if f.Status >= http.StatusInternalServerError {
		rej.Code = guard.GuardUnavailable
	}
	return guard.Decision{Rejection: rej}, nil
}
