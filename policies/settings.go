package policies

import (
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/go-playground/validator/v10"

	"github.com/trafficguard-go/trafficguard/guard"
	"github.com/trafficguard-go/trafficguard/limit"
	"github.com/trafficguard-go/trafficguard/resolver"
	"github.com/trafficguard-go/trafficguard/store"
)

// A ConfigError is one fault in the configuration of a policy. Constructors return all of them, joined; take them
// apart with errors.As, or as an interface{ Unwrap() []error }.
type ConfigError struct {
	Policy string // the constructor, and the name if there is one
	Field  string // the argument or option at fault, such as "Limit" or "Plans.limits[pro]"
	Value  string // what it was
	Reason string // what it must be
}

// Error names the policy, the field, its value and the reason.
func (e *ConfigError) Error() string {
	return fmt.Sprintf("policies: %s: %s is %s: %s", e.Policy, e.Field, e.Value, e.Reason)
}

// rateSettings is what the arguments and options of a rate limit come to. The tags say what is checked, and what the
// user calls a field.
type rateSettings struct {
	Limit             limit.Limit                           `name:"Limit"`
	Subject           resolver.Func                         `name:"Subject"   validate:"required"`
	Store             store.RateStore                       `name:"InStore"   validate:"required"`
	Name              string                                `name:"Named"     validate:"omitempty,policyname"`
	Headers           guard.HeaderFormat                    `name:"Headers"   validate:"lte=4"`
	Else              *elseSettings                         `name:"Else"      validate:"omitempty"`
	Plans             *planSettings                         `name:"Plans"     validate:"omitempty"`
	Exempt            []resolver.Predicate                  `name:"Exempt"    validate:"dive,required"`
	Cost              int                                   `name:"Cost"      validate:"gte=1"`
	CostOf            func(x guard.Exchange) (int64, error) `name:"CostOf"    validate:"-"`
	ChargeIf          func(o guard.Outcome) bool            `name:"ChargeIf"  validate:"-"`
	Challenge         string                                `name:"Challenge" validate:"required,printascii"`
	FailureMode       guard.FailureMode                     `validate:"-"`
	AdmitUnidentified bool
	Settled           bool

	stored, named, costly, conditional bool // InStore, Named, CostOf and ChargeIf were given, whatever with
}

type elseSettings struct {
	Limit   limit.Limit   `name:"limit"`
	Subject resolver.Func `name:"subject" validate:"required"`
}

type planSettings struct {
	Plan   resolver.Func          `name:"plan"   validate:"required"`
	Limits map[string]limit.Limit `name:"limits" validate:"min=1,dive,keys,required,endkeys"`
}

var policyName = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)

// newValidator knows the tags and types above.
func newValidator() *validator.Validate {
	v := validator.New(validator.WithRequiredStructEnabled())
	v.RegisterTagNameFunc(func(f reflect.StructField) string { return f.Tag.Get("name") })
	err := v.RegisterValidation("policyname", func(fl validator.FieldLevel) bool {
		return policyName.MatchString(fl.Field().String())
	})
	if err != nil { // the tag and the function are not nil
		panic(err)
	}
	v.RegisterStructValidation(checkLimit, limit.Limit{})
	v.RegisterStructValidation(checkRate, rateSettings{})
	return v
}

// checkLimit hands on what a limit says of itself.
func checkLimit(sl validator.StructLevel) {
	l, ok := reflect.TypeAssert[limit.Limit](sl.Current())
	if !ok {
		return
	}
	for _, fault := range flatten(l.Err()) {
		sl.ReportError(l, "", "", "limit", fault.Error())
	}
}

// checkRate checks what concerns several fields.
func checkRate(sl validator.StructLevel) {
	s, ok := reflect.TypeAssert[rateSettings](sl.Current())
	if !ok {
		return
	}
	if s.named && s.Name == "" {
		sl.ReportError(s.Name, "Named", "Name", "policyname", "")
	}
	if s.costly && s.CostOf == nil {
		sl.ReportError(s.CostOf, "CostOf", "CostOf", "required", "")
	}
	if s.conditional && s.ChargeIf == nil {
		sl.ReportError(s.ChargeIf, "ChargeIf", "ChargeIf", "required", "")
	}
	for field, l := range s.limits() {
		if r, err := l.Compile(); err == nil && s.CostOf == nil && int64(s.Cost) > r.Burst() {
			reason := fmt.Sprintf("can never pass %s (%s)", field, l)
			sl.ReportError(s.Cost, "Cost", "Cost", "cost", reason)
		}
	}
}

// limits yields every limit of the policy under the name of its field.
func (s *rateSettings) limits() func(yield func(string, limit.Limit) bool) {
	return func(yield func(string, limit.Limit) bool) {
		if !yield("Limit", s.Limit) || s.Else != nil && !yield("Else.limit", s.Else.Limit) || s.Plans == nil {
			return
		}
		for name, l := range s.Plans.Limits {
			if !yield("Plans.limits["+name+"]", l) {
				return
			}
		}
	}
}

// check returns every fault as a *ConfigError, joined.
func (s *rateSettings) check(constructor string) error {
	policy := constructor
	if s.Name != "" {
		policy += fmt.Sprintf(" %q", s.Name)
	}
	err := newValidator().Struct(s)
	var found validator.ValidationErrors
	if err == nil || !errors.As(err, &found) {
		return err
	}
	var faults []error
	for _, f := range found {
		faults = append(faults, &ConfigError{Policy: policy, Field: fieldOf(f), Value: valueOf(f), Reason: reasonOf(f)})
	}
	slices.SortFunc(faults, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return errors.Join(faults...)
}

// fieldOf drops the name of the settings struct, which users never see.
func fieldOf(f validator.FieldError) string {
	_, field, _ := strings.Cut(f.Namespace(), ".")
	return strings.TrimSuffix(field, ".")
}

func valueOf(f validator.FieldError) string {
	v := f.Value()
	if v == nil {
		return "nil"
	}
	if v == (limit.Limit{}) {
		return "limit.Limit{}"
	}
	switch rv := reflect.ValueOf(v); rv.Kind() {
	case reflect.Func, reflect.Pointer, reflect.Map, reflect.Slice, reflect.Interface:
		if rv.IsNil() {
			return "nil"
		}
		return rv.Type().String()
	case reflect.String:
		return fmt.Sprintf("%q", v)
	default:
		return fmt.Sprint(v)
	}
}

func reasonOf(f validator.FieldError) string {
	switch f.Tag() {
	case "limit", "cost":
		return f.Param()
	case "required":
		if strings.HasSuffix(f.Namespace(), "limits[]") {
			return "the name of a plan must not be empty"
		}
		return "must be given"
	case "policyname":
		return "must be 1 to 64 letters, digits and \"._-\""
	case "printascii":
		return "must be printable ASCII"
	case "gte":
		return "must be at least " + f.Param()
	case "min":
		return "must hold at least one plan"
	case "lte":
		return "must be one of NoHeaders, IETF, RateLimitHeaders, XRateLimit and XRateLimitEpoch"
	default:
		return "must satisfy " + f.Tag() + " " + f.Param()
	}
}

// flatten returns the errors that err joins, each alone.
func flatten(err error) []error {
	if err == nil {
		return nil
	}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		return joined.Unwrap()
	}
	return []error{err}
}
