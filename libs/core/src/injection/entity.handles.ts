import type { EntityHandles } from '../protocol/tool-injection.js';

const SAFE_INSTANCE_ID = /^[A-Za-z0-9-]+$/;
/** An id that looks like a handle gets a handle, so that no instance is ever taken for another. */
const LOOKS_LIKE_HANDLE = /^h\d+$/i;

/** One run's names for entity instances. No character of an id is ever stripped: `c-123` and `c123` are two customers. */
export class RunEntityHandles implements EntityHandles {
  private readonly handles = new Map<object, Map<string, string>>();
  private count = 0;

  nameOf(type: object, instanceId: string, maxLength: number): string {
    const fits = instanceId.length <= maxLength && SAFE_INSTANCE_ID.test(instanceId);
    return fits && !LOOKS_LIKE_HANDLE.test(instanceId) ? instanceId : this.handleOf(type, instanceId);
  }

  private handleOf(type: object, instanceId: string): string {
    const ofType = this.handles.get(type) ?? new Map<string, string>();
    this.handles.set(type, ofType);
    const known = ofType.get(instanceId);
    if (known !== undefined) return known;
    this.count += 1;
    const handle = `h${this.count}`;
    ofType.set(instanceId, handle);
    return handle;
  }
}
