# Generated from the declarations of the queries. To change it, see CONTRIBUTING.md.
"""The lists of a log."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Iterator

    from . import records
    from ._types import Id, Time


class Lists:
    """The lists of a log, read while they are iterated over.

    A time is epoch milliseconds, a text (RFC 3339 or a UTC day), or a datetime with a time zone.
    """

    __slots__ = ()

    def turns(
        self,
        *,
        message_id: Id | None = None,
        parent_id: Id | None = None,
        thread_id: Id | None = None,
        kind: Literal["user", "assistant", "system", "sysinfo", "tool"] | None = None,
        since: Time | None = None,
        until: Time | None = None,
        order: Literal["asc", "desc"] | None = None,
        limit: int | None = None,
        as_of: Time | None = None,
    ) -> Iterator[records.ConversationTurn]:
        """Lists the turns that are not retracted.

        message_id: Only turns of this message.
        parent_id: Only turns that follow this one.
        thread_id: Only turns of this thread.
        kind: Only turns of this kind.
        since: Only turns created at this time or later.
        until: Only turns created before this time.
        order: By `created_at`. Default: oldest first (`asc`).
        limit: Maximum number of records. Default: all.
        as_of: The log as of this time.
        """
        return self._list(
            "conversation_turns",
            message_id=message_id,
            parent_id=parent_id,
            thread_id=thread_id,
            kind=kind,
            since=since,
            until=until,
            order=order,
            limit=limit,
            as_of=as_of,
        )

    def tool_calls(
        self,
        *,
        request_id: Id | None = None,
        call_id: str | None = None,
        parent_id: Id | None = None,
        status: Literal["requested", "completed", "failed"] | None = None,
        vendor: str | None = None,
        tool_name: str | None = None,
        since: Time | None = None,
        until: Time | None = None,
        order: Literal["asc", "desc"] | None = None,
        limit: int | None = None,
        as_of: Time | None = None,
    ) -> Iterator[records.ToolCall]:
        """Lists the tool calls that are not retracted.

        request_id: Only calls of this model request.
        call_id: Only calls with this id, of any request.
        parent_id: Only calls of this turn.
        status: Only calls with this status.
        vendor: Only calls of this vendor.
        tool_name: Only calls of this tool.
        since: Only calls started at this time or later.
        until: Only calls started before this time.
        order: By `started_at`. Default: newest first (`desc`).
        limit: Maximum number of records. Default: all.
        as_of: The log as of this time.
        """
        return self._list(
            "tool_calls",
            request_id=request_id,
            call_id=call_id,
            parent_id=parent_id,
            status=status,
            vendor=vendor,
            tool_name=tool_name,
            since=since,
            until=until,
            order=order,
            limit=limit,
            as_of=as_of,
        )

    def proposals(
        self,
        *,
        status: Literal["pending", "approved", "denied", "applied", "reverted"] | None = None,
        since: Time | None = None,
        until: Time | None = None,
        order: Literal["asc", "desc"] | None = None,
        limit: int | None = None,
        as_of: Time | None = None,
    ) -> Iterator[records.CodeEditProposal]:
        """Lists the proposed edits that are not retracted.

        status: Only proposals with this status.
        since: Only proposals created at this time or later.
        until: Only proposals created before this time.
        order: By `created_at`. Default: newest first (`desc`).
        limit: Maximum number of records. Default: all.
        as_of: The log as of this time.
        """
        return self._list(
            "code_edit_proposals",
            status=status,
            since=since,
            until=until,
            order=order,
            limit=limit,
            as_of=as_of,
        )

    def conversations(
        self,
        *,
        workspace: str | None = None,
        project: str | None = None,
        client: str | None = None,
        user_id: str | None = None,
        session_id: str | None = None,
        parent_id: Id | None = None,
        agent: str | None = None,
        status: Literal["active", "completed", "error"] | None = None,
        sort: Literal["newest", "cost", "tokens", "duration", "failures"] | None = None,
        since: Time | None = None,
        until: Time | None = None,
        order: Literal["asc", "desc"] | None = None,
        limit: int | None = None,
    ) -> Iterator[records.Conversation]:
        """Lists the conversations.

        workspace: Only conversations of this workspace or of a directory below it.
        project: Only conversations of this project.
        client: Only conversations of this client.
        user_id: Only conversations of this user: the original id, or its hash.
        session_id: Only conversations of this session.
        parent_id: Only conversations with this `parent_id`, such as those of sub-agents.
        agent: Only conversations of this agent, such as `claude-code`.
        status: Only conversations with this status.
        sort: What to sort by, in descending order unless `order` is `asc`. Default: `newest`.
        since: Only conversations created at this time or later.
        until: Only conversations created before this time.
        order: By `created_at`, or by what `sort` names. Default: newest first (`desc`).
        limit: Maximum number of records. Default: all.
        """
        return self._list(
            "conversations",
            workspace=workspace,
            project=project,
            client=client,
            user_id=user_id,
            session_id=session_id,
            parent_id=parent_id,
            agent=agent,
            status=status,
            sort=sort,
            since=since,
            until=until,
            order=order,
            limit=limit,
        )

    def messages(
        self,
        *,
        conversation_id: Id | None = None,
        from_sequence: int | None = None,
        until_sequence: int | None = None,
        role: Literal["system", "user", "assistant", "tool"] | None = None,
        model_used: str | None = None,
        config_used: str | None = None,
        error: bool | None = None,
        since: Time | None = None,
        until: Time | None = None,
        order: Literal["asc", "desc"] | None = None,
        limit: int | None = None,
    ) -> Iterator[records.ConversationMessage]:
        """Lists the messages.

        conversation_id: Only messages of this conversation.
        from_sequence: Only messages with this sequence or a later one.
        until_sequence: Only messages with an earlier sequence.
        role: Only messages in this role.
        model_used: Only messages that this model (`model_used`) answered.
        config_used: Only messages answered under this configuration (`config_used`).
        error: Only messages with an error (`true`), or without one (`false`).
        since: Only messages of this time or later.
        until: Only messages before this time.
        order: By sequence within a conversation, else by time. Default: oldest first (`asc`).
        limit: Maximum number of records. Default: all.
        """
        return self._list(
            "messages",
            conversation_id=conversation_id,
            from_sequence=from_sequence,
            until_sequence=until_sequence,
            role=role,
            model_used=model_used,
            config_used=config_used,
            error=error,
            since=since,
            until=until,
            order=order,
            limit=limit,
        )

    def events(
        self,
        *,
        parent_id: int | None = None,
        event_type: str | None = None,
        roots: bool | None = None,
        since: Time | None = None,
        until: Time | None = None,
        order: Literal["asc", "desc"] | None = None,
        limit: int | None = None,
    ) -> Iterator[records.Event]:
        """Lists the events.

        parent_id: Only the children of this event.
        event_type: Only events of this type, such as `worker.spawned`.
        roots: Only events without a parent.
        since: Only events of this time or later.
        until: Only events before this time.
        order: By id. Default: oldest first (`asc`).
        limit: Maximum number of records. Default: all.
        """
        return self._list(
            "events",
            parent_id=parent_id,
            event_type=event_type,
            roots=roots,
            since=since,
            until=until,
            order=order,
            limit=limit,
        )

    def tasks(
        self,
        *,
        status: Literal["queued", "in_progress", "done", "failed"] | None = None,
        since: Time | None = None,
        until: Time | None = None,
        order: Literal["asc", "desc"] | None = None,
        limit: int | None = None,
    ) -> Iterator[records.InboxTask]:
        """Lists the tasks of the inbox.

        status: Only tasks with this status.
        since: Only tasks queued at this time or later (`created_at`).
        until: Only tasks queued before this time.
        order: By id. Default: oldest first (`asc`).
        limit: Maximum number of records. Default: all.
        """
        return self._list(
            "inbox",
            status=status,
            since=since,
            until=until,
            order=order,
            limit=limit,
        )

    def history_entries(
        self,
        *,
        chat_id: int | None = None,
        since: Time | None = None,
        until: Time | None = None,
        order: Literal["asc", "desc"] | None = None,
        limit: int | None = None,
    ) -> Iterator[records.HistoryEntry]:
        """Lists the messages of chats.

        chat_id: Only entries of this chat.
        since: Only entries of this time or later.
        until: Only entries before this time.
        order: By id. Default: oldest first (`asc`).
        limit: Maximum number of records. Default: all.
        """
        return self._list(
            "history",
            chat_id=chat_id,
            since=since,
            until=until,
            order=order,
            limit=limit,
        )

    def thought_records(
        self,
        *,
        task_id: str | None = None,
        prev_hash: str | None = None,
        since: Time | None = None,
        until: Time | None = None,
        order: Literal["asc", "desc"] | None = None,
        limit: int | None = None,
    ) -> Iterator[records.ThoughtRecord]:
        """Lists the thoughts.

        task_id: Only thoughts of this task.
        prev_hash: Only thoughts with this `prev_hash`: 64 zeros for the first of each chain.
        since: Only thoughts of this time or later.
        until: Only thoughts before this time.
        order: By the order in which they were recorded. Default: oldest first (`asc`).
        limit: Maximum number of records. Default: all.
        """
        return self._list(
            "thought_records",
            task_id=task_id,
            prev_hash=prev_hash,
            since=since,
            until=until,
            order=order,
            limit=limit,
        )

    def rollups(
        self,
        *,
        since: str | None = None,
        until: str | None = None,
    ) -> Iterator[records.Rollup]:
        """Lists the daily sums of messages.

        since: Only this day and later ones.
        until: Only days before this one.
        """
        return self._list(
            "rollups",
            since=since,
            until=until,
        )

    def _list(self, kind: str, /, **arguments: Any) -> Iterator[Any]:
        raise NotImplementedError
