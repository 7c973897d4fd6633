import type { LoopProfile } from '../protocol/loop-profile.js';
import type { LoopRequest } from '../protocol/loop-request.js';

/** A request with its loop's defaults in it. What narrows (`policy`, `tools`, `exclude`) and what adds up (`injection`) is for others to combine. */
export function withProfile<Output, Actor>(profile: LoopProfile, request: LoopRequest<Output, Actor>): LoopRequest<Output, Actor> {
  return {
    ...profile,
    ...given(request),
    ...(profile.limits && { limits: { ...profile.limits, ...request.limits } }),
    ...(profile.execution && { execution: { ...profile.execution, ...given(request.execution ?? {}) } }),
  };
}

/** What is said: an option that is `undefined` leaves it to the loop. */
function given<Options extends object>(options: Options): Options {
  const said = { ...options };
  for (const [name, value] of Object.entries(said)) if (value === undefined) Reflect.deleteProperty(said, name);
  return said;
}
