import type { PolicyActor, PolicySubject } from '../protocol/policy.js';
import type { Tool } from '../protocol/tool.js';

/** What policy is asked about a tool, on behalf of somebody. */
export function subjectOf({ spec, origin }: Pick<Tool, 'spec' | 'origin'>, actor: PolicyActor): PolicySubject {
  const { declaredId, effect, labels, inputSchema } = spec;
  return { declaredId, effect, labels, inputSchema, origin, actor };
}
