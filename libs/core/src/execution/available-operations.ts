import type { JsonValue } from '../protocol/json.js';
import { OPERATIONS_KEY } from '../protocol/tool.js';

/** Which tools can be called on an object, by their ids; none for what is no entity. */
export type OperationsOn = (instance: object) => readonly string[];

/** What the model reads of a result once it is known what can be called on its entities; undefined where that changes nothing, or does not fit. */
export type Hinted = (operationsOn: OperationsOn) => string | undefined;

/** The objects of a result with the JSON that is shown of each, as they are projected. Which tools they bring is known later, when they have been injected. */
export class ShownObjects {
  private readonly objects: (readonly [source: object, json: Record<string, JsonValue>])[] = [];

  readonly observe = (source: object, json: Record<string, JsonValue>): void => {
    this.objects.push([source, json]);
  };

  /** Adds to each what can be called on it, and words the whole anew. What an object shows under that name itself stays. */
  hinted(word: () => string, mostBytes: number): Hinted | undefined {
    if (this.objects.length === 0) return undefined;
    return (operationsOn) => {
      const added = this.objects.filter(([source, json]) => addTo(json, operationsOn(source)));
      if (added.length === 0) return undefined;
      const text = word();
      return Buffer.byteLength(text) <= mostBytes ? text : undefined;
    };
  }
}

function addTo(json: Record<string, JsonValue>, operations: readonly string[]): boolean {
  if (operations.length === 0 || Object.hasOwn(json, OPERATIONS_KEY)) return false;
  json[OPERATIONS_KEY] = operations;
  return true;
}
