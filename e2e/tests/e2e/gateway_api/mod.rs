//! What the Gateway API requires of session persistence (GEP-1619), tested in Envoy with a configuration written by
//! hand. `design/gateway-api.md` says how each requirement is met. Other tests cover most of them in more
//! detail.
//!
//! The requirements, in the GEP's words, with their numbers and tests:
//!
//! - 3: "Route rules referencing the same service MUST NOT share persistent sessions":
//!   [`rules::check_03_rules_of_one_service_do_not_share_sessions`]
//! - 4: the same, "even if the session persistence is attached to the service":
//!   [`rules::check_04_nor_if_the_session_is_attached_to_the_service`]
//! - 5: persistence "MUST be maintained across services, even if the weight is set to 0":
//!   [`rules::check_05_a_session_stays_on_its_service_at_weight_0`]
//! - 6: with Session, `AbsoluteTimeout` "MUST regulate the cookie's lifespan through a different mechanism":
//!   [`cookies::check_06_a_session_cookies_token_limits_its_lifespan`]
//! - 7: with Permanent, `AbsoluteTimeout` "MUST configure the Expires or Max-Age" and "MUST also be set":
//!   [`cookies::check_07_a_permanent_cookie_lasts_for_the_absolute_timeout`]
//! - 8: the cookie's path: [`cookies::check_08_the_cookies_path_is_the_configured_one`]
//! - 9: "If `SessionName` is not specified, then a unique cookie name should be generated":
//!   [`rules::check_09_generated_names_differ_by_rule_and_are_stable`]
//! - 10: "the implementation MUST be able to handle multiple cookies":
//!   [`cookies::check_10_multiple_cookies_are_handled`]
//! - 11: a session that the backend begins: "simply forward the set-cookie header as it is":
//!   [`cookies::check_11_a_backends_set_cookie_is_forwarded_unchanged`]
//! - 13: a policy on some backends of a split: "An implementation MUST choose one" of three:
//!   [`rules::check_13_a_policy_on_some_backends_is_applied_to_all_equally`]
//! - 16: draining, and "disregarding the broken session" when a backend is gone:
//!   [`backends::check_16_a_draining_backend_keeps_its_sessions`]
//! - 18: "session persistence does not impact the process of route matching":
//!   [`rules::check_18_sessions_do_not_impact_route_matching`]
//! - 19: "When cookie is not present", a request "will be routed based on the `weight` configuration":
//!   [`rules::check_19_without_a_token_the_weights_decide`]
//! - 20: an address that another pod has got:
//!   [`backends::check_20_a_new_pod_does_not_get_a_dead_pods_sessions`]
//! - 21: hijacked, fixed and replayed sessions, and what a token leaks:
//!   [`tokens::check_21_bad_tokens_fall_back_and_show_nothing`]
//! - 22: "Once the session has been idle for more than the specified `IdleTimeout` duration, the session becomes
//!   invalid": [`cookies::check_22_a_session_that_was_idle_for_too_long_is_invalid`]
//! - 23: type Header: [`tokens::check_23_sessions_in_a_header`]
//!
//! The others are about the objects of the API and their status.

mod backends;
mod cookies;
mod rules;
mod tokens;
