import type { PolicyActor, PolicyEngine } from '../protocol/policy.js';
import type { Tool } from '../protocol/tool.js';
import { subjectOf } from './policy-subject.js';
import { decide } from './strictest-decision.js';

/** Whether policy lets a tool be listed for an actor. A call of it is decided once more, with its arguments. */
export function isPermitted(
  tool: Pick<Tool, 'spec' | 'origin'>,
  { policies, actor }: { readonly policies: readonly PolicyEngine[]; readonly actor: PolicyActor },
): boolean {
  return decide(policies, subjectOf(tool, actor)).kind !== 'deny';
}
