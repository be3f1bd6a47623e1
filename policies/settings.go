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
	Field  string // the argument or option at fault, such as "Limit" or "Plans[pro]"
	Value  string // what it was
	Reason string // what it must be
}

// Error names the policy, the field, its value and the reason.
func (e *ConfigError) Error() string {
	return fmt.Sprintf("policies: %s: %s is %s: %s", e.Policy, e.Field, e.Value, e.Reason)
}

// rateSettings is what the arguments and options of a rate limit come to. The tags say what is checked.
type rateSettings struct {
	Limit             limit.Limit
	Subject           resolver.Func                         `validate:"required"`
	Store             store.RateStore                       `validate:"required"`
	Name              string                                `validate:"omitempty,policyname"`
	Headers           guard.HeaderFormat                    `validate:"lte=4"`
	FailureMode       guard.FailureMode                     `validate:"lte=2"`
	Else              *elseSettings                         `validate:"omitempty"`
	Plans             *planSettings                         `validate:"omitempty"`
	Exempt            []resolver.Predicate                  `validate:"dive,required"`
	Cost              int                                   `validate:"gte=1"`
	CostOf            func(x guard.Exchange) (int64, error) `validate:"-"`
	Challenge         string                                `validate:"required,printascii"`
	AdmitUnidentified bool

	named, costly bool // Named and CostOf were given, whatever with
}

type elseSettings struct {
	Limit   limit.Limit
	Subject resolver.Func `validate:"required"`
}

type planSettings struct {
	Plan   resolver.Func          `validate:"required"`
	Limits map[string]limit.Limit `validate:"min=1,dive,keys,required,endkeys"`
}

var policyName = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)

// newValidator knows the tags and types above.
func newValidator() *validator.Validate {
	v := validator.New(validator.WithRequiredStructEnabled())
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
		sl.ReportError(s.Name, "Name", "Name", "policyname", "")
	}
	if s.costly && s.CostOf == nil {
		sl.ReportError(s.CostOf, "CostOf", "CostOf", "required", "")
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
		if !yield("Limit", s.Limit) || s.Else != nil && !yield("Else.Limit", s.Else.Limit) || s.Plans == nil {
			return
		}
		for name, l := range s.Plans.Limits {
			if !yield("Plans.Limits["+name+"]", l) {
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
		return "must be given"
	case "policyname":
		return "must be 1 to 64 letters, digits and \"._-\""
	case "printascii":
		return "must be printable ASCII"
	case "gte", "min":
		return "must be at least " + f.Param()
	case "lte":
		return "must be one of the constants"
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
