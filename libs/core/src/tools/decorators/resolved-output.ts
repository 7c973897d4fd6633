import type { Type } from '@nestjs/common';
import { isRecord } from '@toolloop/protocol';
import type { OutputDeclaration, OutputShape } from './llm-tool.decorator.js';

/** A result's class, spelled out. */
export interface ResolvedOutput {
  readonly type: Type;
  readonly list: boolean;
  readonly nullable: boolean;
}

/**
 * Spells an `output` declaration out; undefined where it does not name one class, and where it says
 * anything else than its options.
 */
export function resolveOutput(declaration: OutputDeclaration): ResolvedOutput | undefined {
  const shape: unknown = isThunk(declaration) ? declaration() : declaration;
  const { type: declared, nullable = false, ...others } = isRecord(shape) ? shape : { type: shape };
  const [type, ...more] = [declared].flat();
  const isSound =
    more.length === 0 && Object.keys(others).length === 0 && typeof nullable === 'boolean';
  return typeof type === 'function' && isSound
    ? { type: type as Type, list: Array.isArray(declared), nullable }
    : undefined;
}

/** A class has a prototype; an arrow function has none. */
function isThunk(declaration: OutputDeclaration): declaration is () => OutputShape {
  return typeof declaration === 'function' && declaration.prototype === undefined;
}
