import type { JsonObject, LoopRequest } from '@toolloop/core';

/** A plain object as JSON, without its `undefined`s. */
export function toPlainJson(value: object): JsonObject {
  return JSON.parse(JSON.stringify(value)) as JsonObject;
}

/** The request that was kept, for whom it acts. */
export function fromDurableRequest(request: JsonObject, who: Pick<LoopRequest, 'actor' | 'tenant'>): LoopRequest {
  return { ...(request as Partial<LoopRequest>), ...who };
}

/** Values that are JSON, as a store gives them back: nobody else has hold of them. */
export function copiesOf<Value>(values: readonly Value[]): Value[] {
  return JSON.parse(JSON.stringify(values)) as Value[];
}
