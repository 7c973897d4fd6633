import { EXCEPTED } from './enhancer-creator.js';

/** Has a compiled method leave out the interceptors of these classes. */
export function leaveOut(callback: object, except: readonly unknown[]): void {
  if (except.length > 0) Reflect.defineMetadata(EXCEPTED, except, callback);
}
