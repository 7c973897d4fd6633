import { IsBoolean, IsOptional, IsString, Matches, MaxLength } from 'class-validator';

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
  /** The run outlives the connection and the process; `/runs` has it. */
  @IsOptional() @IsBoolean({ message: 'durable must be true or false' }) durable?: boolean;
}

/** A question in a URL. The guard has read the ticket already; it is named here because nothing unnamed is accepted. */
export class AskByUrl extends Ask {
  @IsOptional() @IsString() ticket?: string;
}
