import type { EntityHandles } from '../../contracts/injection.js';
import { type Form, list, pair, TEXT } from '../../schema/saved-form.js';

/**
 * The names of a run for entity instances. No character of an id is ever stripped: `c-123` and
 * `c123` are two customers.
 */
export class RunEntityHandles implements EntityHandles {
  private readonly handles: Map<string, string>;
  /**
   * The number of the last handle. It is always among the kept ones, so that none is given twice.
   */
  private last: number;

  /**
   * @param saved the handles so far: each stays with its instance in any process, until 4,000
   *   others were used after it
   */
  constructor(saved: SavedHandles = []) {
    this.handles = new Map(saved);
    this.last = Math.max(0, ...saved.map(([, handle]) => Number(handle.slice(1))));
  }

  nameOf(type: object, instanceId: string, maxLength: number): string {
    const fits = instanceId.length <= maxLength && SAFE_INSTANCE_ID.test(instanceId);
    return fits && !LOOKS_LIKE_HANDLE.test(instanceId)
      ? instanceId
      : this.handleOf(type, instanceId);
  }

  /** Takes over the handle that an instance had in an earlier run of the conversation. */
  remember(type: object, instanceId: string, handle: string): void {
    this.handles.set(handleKey(type, instanceId), handle);
    this.last = Math.max(this.last, Number(handle.slice(1)));
  }

  save(): SavedHandles {
    return [...this.handles];
  }

  private handleOf(type: object, instanceId: string): string {
    const key = handleKey(type, instanceId);
    const known = this.handles.get(key);
    if (known === undefined) this.last += 1;
    const handle = known ?? `h${this.last}`;
    this.handles.delete(key);
    this.handles.set(key, handle);
    const [oldest] = this.handles.size > MOST_HANDLES ? this.handles.keys() : [];
    if (oldest !== undefined) this.handles.delete(oldest);
    return handle;
  }
}

export const SAVED_HANDLES: Form<SavedHandles> = list(pair(TEXT));

const SAFE_INSTANCE_ID = /^[A-Za-z0-9-]+$/;

/**
 * The form of a handle. An id of this form gets a handle, so that no instance is mistaken for
 * another.
 */
const LOOKS_LIKE_HANDLE = /^h\d+$/i;

/**
 * The most handles that are kept, four times as many as the entities of a run by default: a session
 * may be shown any number of them.
 */
const MOST_HANDLES = 4_000;

/**
 * Handles as JSON: the name of the class with the instance id, and the handle; least recently used
 * first.
 */
export type SavedHandles = readonly (readonly [string, string])[];

function handleKey(type: object, instanceId: string): string {
  return JSON.stringify(['name' in type ? type.name : '', instanceId]);
}
