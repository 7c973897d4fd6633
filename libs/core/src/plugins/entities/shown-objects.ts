import type { JsonValue } from '@toolloop/protocol';
import { OPERATIONS_KEY } from '../../contracts/result-projector.js';

/**
 * The objects of a result with the JSON that is shown of each, as they are projected. Which tools
 * they bring is known later, when they have been injected.
 */
export class ShownObjects {
  private readonly objects: (readonly [source: object, json: Record<string, JsonValue>])[] = [];

  readonly observe = (source: object, json: Record<string, JsonValue>): void => {
    this.objects.push([source, json]);
  };

  /**
   * Adds to each what can be called on it, and words the whole anew. What an object shows under
   * that name itself stays.
   */
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

/**
 * Returns the ids of the tools that can be called on an object; none for an object that is no
 * entity.
 */
export type OperationsOn = (instance: object) => readonly string[];

/**
 * Returns the text of a result with the operations on its entities, once they are known; undefined
 * if that changes nothing, or does not fit.
 */
export type Hinted = (operationsOn: OperationsOn) => string | undefined;

function addTo(json: Record<string, JsonValue>, operations: readonly string[]): boolean {
  if (operations.length === 0 || Object.hasOwn(json, OPERATIONS_KEY)) return false;
  json[OPERATIONS_KEY] = operations;
  return true;
}
