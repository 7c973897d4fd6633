import type { Type } from '@nestjs/common';
import type { RawTool } from '../decorators/raw-tool.js';
import type { ToolMethod } from '../decorators/tool-metadata.js';
import { hostClassOf, hostOf, recordTypes } from './enhancers.js';
import { type LayeredMethod } from './layered-method.js';
import { isClass } from './provider-classes.js';

/**
 * Makes the class in which Nest finds the guards, pipes, interceptors and filters of a raw tool: it
 * has those of the tool's class. A function has none of its own, and its class, which bears the id
 * of the tool, stands for it in an `ExecutionContext`.
 */
export function rawMethodOf(raw: RawTool): LayeredMethod {
  const { input, interceptors } = raw.declaration;
  const type = hostOfRaw(raw);
  const parameters =
    input === undefined ? [] : [{ kind: 'input', index: 0, type: undefined } as const];
  const method: ToolMethod = { property: CALL, options: undefined, parameters, designTypes: [] };
  recordTypes(type, method.property, [isClass(input) ? input : Object]);
  return { type, method, except: interceptors?.except };
}

function hostOfRaw({ type, guardClass, source, declaration: { id = '' } }: RawTool): Type {
  const handlers = { [CALL]: source && Reflect.get(source, 'execute') };
  if (guardClass) return hostClassOf(guardClass, [], handlers);
  return type ? hostClassOf(type, [CALL]) : hostOf(id, handlers);
}

/** The method of a raw tool's class. */
const CALL = 'call';

/** The same for a tool that a source declares, which is known by its id alone. */
export function contributedMethodOf(
  declaredId: string,
  except?: readonly unknown[],
): LayeredMethod {
  const type = hostOf(declaredId, { [CALL]: undefined });
  const method: ToolMethod = {
    property: CALL,
    options: undefined,
    parameters: [{ kind: 'input', index: 0, type: undefined }],
    designTypes: [],
  };
  recordTypes(type, CALL, [Object]);
  return { type, method, except };
}
