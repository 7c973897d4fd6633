import type { Type } from '@nestjs/common';
import type { ToolProviderOptions } from '../decorators/tool-provider.decorator.js';

/** What every provider accepts as a tool's name. */
export const SAFE_TOOL_ID = /^[a-zA-Z0-9_-]{1,64}$/;
export const TOOL_ID_LENGTH = 64;
export const SAFE_PREFIX = /^[a-zA-Z][a-zA-Z0-9]*$/;

/** The first part of a service tool's id: `CustomerTools` → `customer`, `OrderDeskService` → `order_desk`. */
export function namespaceOf(type: Type, options: ToolProviderOptions): string {
  return options.namespace ?? snakeCase(type.name.replace(/(?<=.)(Tools|Service)$/, ''));
}

/** The first part of an entity tool's id. */
export function prefixOf(type: Type, options: ToolProviderOptions): string {
  return options.prefix ?? type.name.toLowerCase();
}

function snakeCase(name: string): string {
  return name
    .replace(/([a-z0-9])([A-Z])/g, '$1_$2')
    .replace(/([A-Z]+)([A-Z][a-z])/g, '$1_$2')
    .toLowerCase();
}
