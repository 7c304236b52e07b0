/**
 * `svc/oauth`: the social-login plugin. Empty until it comes; the entry point is there so that its name is settled.
 */
export {};
