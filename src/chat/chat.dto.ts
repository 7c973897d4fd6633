import { type DeclaredTool, type LoopRequest, ToolField } from '@toolloop/core';
import { ArrayMaxSize, IsArray, IsBoolean, IsOptional, IsString, Matches, MaxLength, ValidateIf } from 'class-validator';
import type { User } from '../identity/user.js';
import { termsFor } from '../policy.js';

/** A question to the desk. */
export class Ask {
  @IsString({ message: 'message must be a text' })
  @MaxLength(8000, { message: 'message must have at most 8000 characters' })
  @Matches(/\S/, { message: 'message must not be empty' })
  message!: string;

  /** Continues a conversation of the same user, or begins one. */
  @IsOptional()
  @Matches(/^[A-Za-z0-9_-]{1,64}$/, { message: 'conversationId must be 1 to 64 letters, digits, "-" or "_"' })
  conversationId?: string;
}

/** A question whose answer is streamed. */
export class AskByBody extends Ask {
  /** The run changes nothing: it ends with the list of what it would change, which people then approve or not. */
  @ValidateIf((_body, rehearse) => rehearse !== undefined) @IsBoolean({ message: 'rehearse must be true or false' }) rehearse?: boolean;

  /** The run outlives the connection and the process; `/runs` has it. */
  @ValidateIf((_body, durable) => durable !== undefined) @IsBoolean({ message: 'durable must be true or false' }) durable?: boolean;

  /** The answer has the form of `Answer`: it is streamed as an object that grows, and checked at its end. */
  @ValidateIf((_body, structured) => structured !== undefined)
  @IsBoolean({ message: 'structured must be true or false' })
  structured?: boolean;

  /** The tools that the client has. What of them is taken is the loop's to say: see `clientTools`. */
  @IsOptional() @IsArray({ message: 'clientTools must be a list of tools' }) @ArrayMaxSize(100) clientTools?: DeclaredTool[];
}

/** A question in a URL. The guard has read the ticket already; it is named here because unnamed properties are refused. */
export class AskByUrl extends Ask {
  @IsOptional() @IsString() ticket?: string;
}

/** The form of an answer that a program reads. */
export class Answer {
  @ToolField({ description: 'The answer, in a sentence or two.' })
  @IsString()
  @MaxLength(4000)
  answer!: string;

  @ToolField({ description: 'Ids of the customers, orders, products and carts it rests on.' })
  @IsArray()
  @IsString({ each: true })
  sources!: string[];
}

/** A question as a run: the user and the tenant come from the guard, never from the body. `requestId` is the client's name for it. */
export function toRunRequest(
  { message, conversationId, rehearse }: Ask & Pick<AskByBody, 'rehearse'>,
  user: User,
  requestId?: string,
): LoopRequest<unknown, User> {
  return {
    ...termsFor(user),
    prompt: message,
    ...(rehearse && { rehearse }),
    ...(conversationId && { conversationId }),
    ...(requestId !== undefined && { requestId }),
  };
}
