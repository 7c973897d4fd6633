import type { ToolEffect, ToolOrigin } from './tool.js';

/**
 * What a run may do, as data: JSON in, JSON out. Patterns match declared ids; `*` stands for any characters. Globs never match the tools of an
 * untrusted source, those are named exactly. What nothing allows is denied.
 */
export interface Policy {
  /** Carried by every decision. @default a hash of the policy */
  readonly version?: string;
  readonly allow: readonly string[];
  /** Wins over `allow`. */
  readonly deny?: readonly string[];
  /** Effects that may happen at all. @default every effect */
  readonly effects?: readonly ToolEffect[];
  readonly requireApproval?: { readonly effects?: readonly ToolEffect[] };
}

/** The answer for one tool, with the rule that gave it. */
export interface Decision {
  readonly kind: 'allow' | 'deny' | 'require_approval';
  /** Which rule decided, e.g. `allow: crm__*`. */
  readonly rule: string;
  readonly reason: string;
  readonly policyVersion: string;
}

/** What a decision is about. */
export interface PolicySubject {
  readonly declaredId: string;
  readonly effect: ToolEffect;
  readonly origin: ToolOrigin;
}
