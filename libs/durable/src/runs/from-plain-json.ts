import type { JsonObject, LoopRequest } from '@toolloop/core';

/** A plain object as JSON, without its `undefined`s. */
export function toPlainJson(value: object): JsonObject {
  return JSON.parse(JSON.stringify(value)) as JsonObject;
}

/** The request that was kept, for whom it acts. */
export function fromDurableRequest(request: JsonObject, who: Pick<LoopRequest, 'actor' | 'tenant'>): LoopRequest {
  return { ...(request as Partial<LoopRequest>), ...who };
}
