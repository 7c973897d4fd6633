import type { LlmToolOptions } from '../decorators/llm-tool.decorator.js';
import type { RawToolDeclaration } from '../decorators/raw-tool.declaration.js';
import type { ToolProviderOptions } from '../decorators/tool-provider.decorator.js';
import type { OptionNames } from '../findings/unknown-options.js';

/** What `@ToolProvider()` takes. */
export const PROVIDER_OPTIONS: OptionNames<ToolProviderOptions> = {
  namespace: true,
  prefix: true,
  instanceIdProperty: true,
  rehydrate: true,
  tenantProperty: true,
  execution: true,
};

/** What `@LlmTool()` takes. */
export const METHOD_OPTIONS: OptionNames<LlmToolOptions> = {
  description: true,
  effect: true,
  name: true,
  labels: true,
  when: true,
  timeoutMs: true,
  idempotencyKey: true,
  idempotencyScope: true,
  idempotent: true,
  directive: true,
  concurrency: true,
  execution: true,
  humanReadable: true,
  allowReserved: true,
  canCall: true,
  preview: true,
  output: true,
  reveal: true,
};

const { name: _ofMethods, ...SHARED } = METHOD_OPTIONS;

/** What `tool()` and `rawTool()` take. */
export const RAW_OPTIONS: OptionNames<RawToolDeclaration> & { readonly execute: true } = {
  ...SHARED,
  id: true,
  input: true,
  execute: true,
};
