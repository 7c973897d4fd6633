import { ToolField } from '@toolloop/core';
import { IsArray, IsString, MaxLength } from 'class-validator';

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
