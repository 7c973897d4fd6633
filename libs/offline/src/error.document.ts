import type { JsonValue } from '@toolloop/core';
import { isJsonArray, isJsonObject } from './json.js';

/** Whether a result says that its call came to nothing: `{ errors: […] }`, alone or in the envelope `{ ok: false, … }`. */
export function isErrorDocument(value: JsonValue): boolean {
  return isJsonObject(value) && (value['ok'] === false || (isJsonArray(value['errors']) && Object.keys(value).length === 1));
}

/** The first error a result tells. */
export function errorIn(value: JsonValue): JsonValue | undefined {
  if (!isJsonObject(value)) return value;
  const { errors } = value;
  return isJsonArray(errors) ? errors[0] : (value['error'] ?? value);
}

/** Why a call was not made that needed a person's yes; undefined of any other result. */
export function denialIn(value: JsonValue): string | undefined {
  const error = errorIn(value);
  if (!isJsonObject(error) || error['code'] !== 'approval_denied') return undefined;
  return typeof error['detail'] === 'string' ? error['detail'] : 'Nobody approved it.';
}
