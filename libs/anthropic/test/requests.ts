import type { ModelRequest } from '@toolloop/protocol';
import { toMessagesRequest, type AnthropicTarget } from '../src/index.js';

export { ask, toolSpec } from '../../wire/test/requests.js';

/** The body a request is sent as, read again. */
export function anthropicBody(
  request: ModelRequest,
  options: Omit<AnthropicTarget, 'model'> = {},
): Record<string, unknown> {
  return JSON.parse(toMessagesRequest(request, { ...options, model: 'own-1' })) as Record<
    string,
    unknown
  >;
}
